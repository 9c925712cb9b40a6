"""Builds the package: `pip install .` a wheel, `scrapyd-deploy` an egg.

pyproject.toml has the metadata. This file adds two fields that pyproject.toml cannot express.
"""

import sys
from pathlib import Path

from setuptools import find_packages, setup

REQUIREMENTS = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")

setup(
    # The seed lists stand at the root of the repository, and inside the package once it is built.
    packages=[*find_packages(include=["webcrawl", "webcrawl.*"]), "webcrawl.seeds"],
    package_dir={"webcrawl.seeds": "seeds"},
    package_data={
        "webcrawl.seeds": ["*.txt", "*.gz"],
        "webcrawl.analysis": ["static/*"],
        "webcrawl.live": ["page/*"],
    },
    # An egg declares no dependencies. scrapyd activates it with pkg_resources, which refuses to
    # start if the server has a version outside a declared range; requirements.txt is installed on
    # the server instead.
    install_requires=[]
    if "bdist_egg" in sys.argv
    else [line for line in REQUIREMENTS.splitlines() if line and not line.startswith("#")],
)
