"""Packs the project as an egg, for scrapyd-deploy. To work on it, use `make`."""

from setuptools import find_packages, setup

from webcrawl import __version__

setup(
    name="webcrawl",
    version=__version__,
    python_requires=">=3.11",
    packages=[*find_packages(include=["webcrawl", "webcrawl.*"]), "webcrawl.seeds"],
    # The seed lists live at the top of the repository and inside the package of an egg.
    package_dir={"webcrawl.seeds": "seeds"},
    package_data={"webcrawl.seeds": ["*.txt", "*.gz"]},
    # scrapyd reads the settings module from here. No install_requires: scrapyd activates the egg
    # with pkg_resources, which would refuse to start over a version that the server pins
    # otherwise; the server gets its packages from requirements.txt.
    entry_points={"scrapy": ["settings = webcrawl.settings"]},
)
