# For people: `make demo` and `make test` set up all they need (Python >= 3.11) in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
REAL ?= tests
TIERS ?= tests/contracts tests/envtest tests/capi tests/unit/etcdbackup tests/unit/etcd
STORIES ?= tests/nodes tests/contracts/test_kubeadm.py
WORKERS ?= 3
# What depends on the Python version: the event loop, threads, processes, TLS, imports, regular expressions; and the program on nodes.
SMOKE ?= tests/unit/runtime tests/unit/cli tests/unit/kube tests/unit/providers tests/unit/etcdbackup/copying tests/unit/etcdbackup/stores tests/unit/etcdbackup/snapshots/test_damage.py tests/hostile/test_ports.py tests/journeys/test_start.py tests/journeys/test_in_place_processes.py tests/journeys/test_taken_over.py
COMPILE := uv pip compile -q --generate-hashes --universal --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 \
	--no-emit-package espalier-control-plane --no-emit-package espalier-control-plane-local
.DEFAULT_GOAL := help
# Without cached bytecode each of the many programs that tests start compiles all it imports: a second of CPU each.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test smoke check bench soak real-assets real real-matrix test-real sizes pages election messages lock base-packages release docs chart dist

help: ## What there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

# The lock names all there is to install; most of it is never imported, and what is compiles itself once.
$(VENV)/.installed: requirements-dev.txt pyproject.toml packaging/local/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Espalier needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable packaging/local
	@touch $@

demo: $(VENV)/.installed ## A manifest becomes a cluster: created, scaled, upgraded, deleted
	@$(BIN)/espalier demo

test: check ## Checks and all tests that this machine can carry
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not nodes and not soak'

smoke: $(VENV)/.installed ## A part of the tests, for another Python: make smoke VENV=.venv-system PYTHON=/usr/bin/python3
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not (nodes or soak or envtest or capi)' $(SMOKE)

check: $(VENV)/.installed ## Style, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.installed ## The figures of docs/figures.md, measured here
	@for file in benchmarks/bench_*.py; do $(BIN)/python -m benchmarks.$$(basename $$file .py) || exit 1; done

soak: $(VENV)/.installed ## What `make test` leaves out: other variants, fuzz targets, histories, 200 clusters, 2000 examples; SECONDS=N each (60)
	@ESPALIER_SOAK_SECONDS=$(or $(SECONDS),60) $(BIN)/python -m pytest -q -n 2 --dist load -m 'soak or hypothesis'

real-assets: ## Real programs into a cache outside the tree (needs Go); REAL=nodes: all of real nodes (needs root, debootstrap)
	@PYTHONPATH=src $(PYTHON) -m espalier.assets $(if $(ROW),--row $(ROW)) $(REAL)

real: $(VENV)/.installed ## Build one row of versions and run the tests on it: make real ROW=1.37
	@PYTHONPATH=src $(PYTHON) -m espalier.assets $(if $(ROW),--row $(ROW)) tests
	@$(if $(ROW),ESPALIER_ROW=$(ROW)) $(BIN)/python -m pytest -q -rs -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not nodes and not soak' $(TIERS)

real-matrix: ## `make real` for each row of versions, with its seconds
	@for row in $$(PYTHONPATH=src $(PYTHON) -m espalier.api.version_matrix); do \
		started=$$(date +%s); $(MAKE) --no-print-directory real ROW=$$row || exit 1; \
		echo "row $$row: $$(( $$(date +%s) - started )) s"; done

test-real: $(VENV)/.installed ## Real nodes here, with the two last versions of a row: make test-real ROW=1.37 (root; real-assets REAL=nodes before)
	@$(if $(ROW),ESPALIER_ROW=$(ROW)) $(BIN)/python -m pytest -q -rs -m nodes $(STORIES)

sizes: $(VENV)/.installed ## Sizes that stick out
	@$(BIN)/python tests/conventions/sizes.py

release: $(VENV)/.installed ## Enter a release into the embedded manifest: make release VERSION=v0.27.0 [BUNDLES=bundles-4.yaml]
	@$(BIN)/python -m espalier.releases.adding $(VERSION) $(BUNDLES)
	@sed -i -E 's/^version = .*/version = "$(VERSION:v%=%)"/; s/"(espalier-control-plane(-local)?)==[^"]*"/"\1==$(VERSION:v%=%)"/' \
		pyproject.toml packaging/local/pyproject.toml
	@sed -i -E 's/^version: .*/version: $(VERSION:v%=%)/; s/^appVersion: .*/appVersion: $(VERSION)/' charts/espalier/Chart.yaml

pages: $(VENV)/.installed ## Write docs/reference from the tables in the code, docs/proposals.md from the marks of tests
	@$(BIN)/python -m espalier.cli.pages docs/reference
	@$(BIN)/python -m tests.conventions.demands docs/proposals.md

chart: $(VENV)/.installed ## Write charts/espalier from the declarations of the components
	@rm -rf charts/espalier
	@$(BIN)/espalier manifests --format chart --output-dir charts/espalier

election: $(VENV)/.installed ## Explore the election of etcd's owner: tables of docs/etcd-election.md, ways to each hole (twenty minutes)
	@$(BIN)/python -m tests.support.etcd.election.page

docs: .venv-docs/.installed ## The pages as a site, in dist/docs, with every link checked
	@.venv-docs/bin/python packaging/docs/site.py

.venv-docs/.installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.txt
	@touch $@

messages: $(VENV)/.installed ## Generate the Python of etcd's messages from src/espalier/etcd/messages/rpc.proto
	@$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src espalier/etcd/messages/rpc.proto

lock: ## Compile the locked requirements anew (needs uv)
	$(COMPILE) --extra local --extra etcd --extra gitops pyproject.toml -o requirements.txt
	$(COMPILE) --extra local --extra etcd --extra gitops --group dev -c requirements.txt pyproject.toml -o requirements-dev.txt
	$(COMPILE) --group docs -o requirements-docs.txt
	$(COMPILE) -c requirements.txt pyproject.toml -o src/espalier/cli/local/images/requirements-manager.txt
	$(COMPILE) --extra etcd -c requirements.txt pyproject.toml -o src/espalier/cli/local/images/requirements-seed.txt

base-packages: $(VENV)/.installed ## Lock the newest Debian packages of the images' base (on a Debian; verified by its keyring)
	@$(BIN)/python -m espalier.cli.local.images.bases.base_lock

dist: $(VENV)/.installed ## What a release consists of, in dist/: wheels, image and digests, charts, notes, checksums
	@$(BIN)/python packaging/dist.py dist
