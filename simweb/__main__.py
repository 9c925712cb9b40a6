"""`python -m simweb`."""

import argparse
import sys

from simweb import cli

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m simweb", description=cli.DESCRIPTION)
    cli.add_arguments(parser)
    sys.exit(cli.run(parser.parse_args()))
