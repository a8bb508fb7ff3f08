# Prairie from a fresh checkout: `make demo` shows what it does, `make test` checks that it does.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo build dist install static deb rpm image package-test alert-test manifest-test test experiments results results-long docs properties heap-test python-test fleet-test vm-test vm-record vm-record-sizes vm-record-late vm-record-long vm-lab kernel-check kernel-test licences package fuzz bench clean

# rustup puts cargo here, and Go what it builds; only login shells look there.
export PATH := $(PATH):$(HOME)/.cargo/bin:$(HOME)/go/bin

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The binary that the demo runs. Give another one to try it without a release build.
PRAIRIE ?= $(TARGET)/release/prairie
REPORT ?= prairie-report.html
SECONDS_EACH ?= 20

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
	    while IFS='|' read -r target what; do printf '%-16s %s\n' "$$target" "$$what"; done

demo: $(if $(filter $(TARGET)/release/prairie,$(PRAIRIE)),build) ## Survey this host, replay the shipped trace under three allocators, write prairie-report.html
	@scripts/demo $(PRAIRIE) $(REPORT)

build: ## Build the command into target/release/prairie
	@scripts/need cargo cc
	@$(CARGO) build --release --locked --package prairie

DIST := $(TARGET)/dist
PREFIX ?= /usr/local
DESTDIR ?=
INSTALL := install -D

dist: ## Build what packages contain into target/dist: stripped, debug info apart
	@scripts/need cargo cc
	@$(CARGO) build --release --locked --package prairie
	@# Alone, as otherwise it would be built with what only the command needs of the heap.
	@$(CARGO) build --release --locked --package prairie-heap-preload
	@packaging/stage $(TARGET)/release $(DIST)
	@$(TARGET)/release/prairie survey --from data/mixed.parquet --save $(DIST)/example.parquet >/dev/null

install: $(if $(wildcard $(DIST)/bin/prairie),,dist) ## Install into PREFIX=/usr/local below DESTDIR=; settings into /etc/prairie
	@[ -z "$$(find crates Cargo.toml Cargo.lock -type f ! -path '*/tests/*' -newer $(DIST)/bin/prairie -print -quit)" ] || \
	    echo "prairie: installing $(DIST), which is older than the sources; make dist builds it again" >&2
	@$(INSTALL) -m 755 $(DIST)/bin/prairie $(DESTDIR)$(PREFIX)/bin/prairie
	@$(INSTALL) -m 644 $(DIST)/lib/libprairie_heap.so $(DESTDIR)$(PREFIX)/lib/libprairie_heap.so
	@$(INSTALL) -m 644 $(DIST)/lib/libprairie_heap.a $(DESTDIR)$(PREFIX)/lib/libprairie_heap.a
	@$(INSTALL) -m 644 crates/heap-preload/include/prairie_heap.h $(DESTDIR)$(PREFIX)/include/prairie_heap.h
	@mkdir -p $(DESTDIR)$(PREFIX)/lib/pkgconfig
	@packaging/pkg-config $(PREFIX) $(PREFIX)/lib >$(DESTDIR)$(PREFIX)/lib/pkgconfig/prairie-heap.pc
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(DIST)/man/*.1.gz
	@$(INSTALL) -m 644 $(DIST)/completions/prairie.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/prairie
	@$(INSTALL) -m 644 $(DIST)/completions/prairie.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_prairie
	@$(INSTALL) -m 644 $(DIST)/completions/prairie.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/prairie.fish
	@mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system
	@for unit in packaging/systemd/*.service packaging/systemd/*.timer crates/offload/systemd/*.service; do \
	    sed 's|/usr/bin/prairie|$(PREFIX)/bin/prairie|' "$$unit" \
	        >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$(basename "$$unit"); \
	done
	@# Settings that somebody has edited stay.
	@for file in packaging/systemd/regions.toml packaging/systemd/survey.conf crates/offload/systemd/offload.toml; do \
	    to=$(DESTDIR)/etc/prairie/$$(basename "$$file"); \
	    [ -e "$$to" ] || $(INSTALL) -m 644 "$$file" "$$to"; \
	done
	@$(INSTALL) -m 644 $(DIST)/third-party-licenses.txt $(DESTDIR)$(PREFIX)/share/doc/prairie/third-party-licenses.txt
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/prairie packaging/systemd/stalls.conf
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/prairie/grafana packaging/grafana/*.json
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/prairie/prometheus packaging/prometheus/*.yml
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/prairie/kubernetes packaging/kubernetes/*.yaml
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/prairie/helm/prairie packaging/helm/prairie/*.*
	@$(INSTALL) -m 644 -t $(DESTDIR)$(PREFIX)/share/prairie/helm/prairie/templates packaging/helm/prairie/templates/*

static: ## Build a static binary with musl into target/dist/static (needs the target x86_64-unknown-linux-musl)
	@scripts/need cargo cc musl
	@$(CARGO) build --release --locked --package prairie --target x86_64-unknown-linux-musl
	@mkdir -p $(DIST)/static
	@objcopy --only-keep-debug $(TARGET)/x86_64-unknown-linux-musl/release/prairie $(DIST)/static/prairie.debug
	@strip --strip-all -o $(DIST)/static/prairie $(TARGET)/x86_64-unknown-linux-musl/release/prairie
	@cd $(DIST)/static && objcopy --add-gnu-debuglink=prairie.debug prairie

deb: dist ## Build Debian packages into target/dist (needs cargo-deb)
	@scripts/need cargo cargo-deb
	@packaging/pkg-config /usr /usr/lib/x86_64-linux-gnu >$(DIST)/lib/pkgconfig/prairie-heap.pc
	@rm -f $(DIST)/*.deb
	@for package in prairie prairie-heap-preload; do \
	    $(CARGO) deb --quiet --locked --no-build --no-strip --package $$package --output $(DIST) || exit 1; \
	done
	@ls -l $(DIST)/*.deb

rpm: dist ## Build an RPM into target/dist (needs cargo-generate-rpm)
	@scripts/need cargo cargo-generate-rpm
	@mkdir -p $(DIST)/lib/pkgconfig/lib64
	@packaging/pkg-config /usr /usr/lib64 >$(DIST)/lib/pkgconfig/lib64/prairie-heap.pc
	@rm -f $(DIST)/*.rpm
	@$(CARGO) generate-rpm --package crates/prairie --output $(DIST)
	@ls -l $(DIST)/*.rpm

image: static ## Build a container image of the static binary and its licenses into target/dist
	@packaging/image $(DIST)/static/prairie $(DIST)/prairie-image.tar

package-test: deb rpm ## Install the packages into an empty Debian and an empty root, use and remove them (needs root)
	@scripts/need mmdebstrap rpm
	@packaging/test-packages $(DIST)/prairie_*.deb $(DIST)/prairie-heap_*.deb
	@packaging/test-rpm $(DIST)/prairie-*.rpm

manifest-test: ## Validate the Kubernetes manifest and, where helm is installed, the chart
	@scripts/need python helm
	@packaging/test-manifests $(TARGET)/manifest-venv

alert-test: build ## Fire the shipped alerts in a real Prometheus
	@scripts/need prometheus
	@packaging/test-alerts $(PRAIRIE)

# Linting and documenting share one check of the dependencies; tests come last because they take
# longest. Passing tests may print: why they were skipped, or how far a replay was from the real
# kernel. Random cases are drawn from the commit: what passes once passes again. `make properties`
# draws new ones.
test: export PROPTEST_RNG_SEED := $(shell printf %d "0x$$(git rev-parse --short=12 HEAD 2>/dev/null || echo 1)")
test: export PRAIRIE_SKIPS := $(abspath $(TARGET))/skips.txt
test: ## Run every check and every test; stop at the first that fails, and list those skipped
	@rm -rf $(TARGET)/parts && mkdir -p $(TARGET) && : >$(PRAIRIE_SKIPS)
	@scripts/need cargo cc rustfmt clippy aarch64 chromium qemu promtool prometheus tmux
	@echo "== format"
	@$(CARGO) fmt --all --check
	@echo "== lint"
	@$(CARGO) clippy --quiet --locked --workspace --all-targets -- -D warnings
	@scripts/lint-aarch64
	@echo "== docs"
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --locked --workspace --no-deps
	@scripts/check-links
	@scripts/check-words
	@$(CARGO) test --quiet --locked --workspace --no-run
	@echo "== test, beside the built programs: $(PROGRAM_TESTS)"
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target run-tests $(PROGRAM_TESTS) || \
	    scripts/part --failed
	@scripts/skips $(PRAIRIE_SKIPS)

# Tests of the built programs, the longest first. Most of them wait, so they run one by one beside
# the tests of the code. Virtual machines run in counted time, so that their results do not depend on
# the host's load. The plus sign has the tests of the code print at once, the others when they end.
PROGRAM_TESTS := run-results run-offload run-regions run-python run-alerts run-manifests
.PHONY: run-tests $(PROGRAM_TESTS)
run-tests:
	+@$(CARGO) test --locked --workspace -- --show-output
run-results:
	@scripts/part results $(TARGET)/debug/experiments check
run-python:
	@PRAIRIE=$(abspath $(TARGET)/debug/prairie) scripts/part python python/test --short
run-alerts:
	@scripts/part alerts packaging/test-alerts $(abspath $(TARGET)/debug/prairie)
run-manifests:
	@scripts/part manifests packaging/test-manifests $(TARGET)/manifest-venv
run-offload:
	@PRAIRIE=$(abspath $(TARGET)/debug/prairie) PACED=$(abspath $(TARGET)/debug/paced) scripts/part "offload on a real kernel" vm/tests/offload.sh --short
run-regions:
	@PRAIRIE=$(abspath $(TARGET)/debug/prairie) KILL_OFFLINE=$(abspath $(TARGET)/debug/kill_offline) KERNEL_LOAD=$(abspath $(TARGET)/debug/kernel_load) scripts/part "regions on a real kernel" vm/tests/regions.sh --short

# Commands of results find the programs of the same build beside the one that runs them.
EXPERIMENTS := $(TARGET)/quick/experiments
experiments:
	@scripts/need cargo cc
	@$(CARGO) build --profile quick --locked --workspace --exclude prairie-fuzz --bins

results: experiments ## Measure again what takes minutes, and write the tables of the docs
	@$(EXPERIMENTS) run

results-long: ## Measure again what takes hours, needs other programs, or is timed; on an idle machine
	@scripts/need cargo cc
	@$(CARGO) build --release --locked --workspace --exclude prairie-fuzz --bins
	@$(TARGET)/release/experiments run --long

docs: ## Build the book of docs/ into target/book, and the reference of the Python module
	@scripts/need cargo mdbook
	@mdbook build docs
	@python/reference $(TARGET)/book/python
	@echo "The book is $(TARGET)/book/index.html."

properties: ## Run every property test on new random cases, in 20 rounds
	@scripts/need cargo cc
	@scripts/properties

heap-test: ## Run the heap under real programs for minutes, with and without restartable sequences
	@scripts/need cargo cc
	@scripts/heap-test

python-test: ## Build the Python wheel and test it in a virtual environment: stubs, results, notebooks
	@scripts/need cargo cc python
	@python/test

fleet-test: build ## Run a fleet study on a local Ray cluster whose second node dies (needs Python 3.10)
	@scripts/need python
	@test -d $(TARGET)/fleet-venv || python3 -m venv $(TARGET)/fleet-venv
	@$(TARGET)/fleet-venv/bin/pip install --quiet './python[fleet,test]'
	@# Workers import the functions of a sweep from the folder in which the driver started.
	@cd python/tests && PRAIRIE=$(abspath $(PRAIRIE)) \
	    $(abspath $(TARGET))/fleet-venv/bin/python -m pytest -q -p no:cacheprovider test_ray.py

vm-test: ## Run the tests that need a real kernel, in emulated machines
	@scripts/need qemu cargo
	@$(CARGO) build --release --locked --package prairie
	@: >$(TARGET)/vm-skips.txt
	@export PRAIRIE=$(abspath $(TARGET)/release/prairie) PRAIRIE_SKIPS=$(abspath $(TARGET)/vm-skips.txt); for test in vm/tests/*.sh; do echo "== $$test"; $$test || exit 1; done
	@scripts/skips $(TARGET)/vm-skips.txt

vm-record: build ## Record a stock kernel (KERNEL=6.12) from boot into target/recordings, and replay it
	@scripts/need qemu
	@set -e; export PRAIRIE=$(abspath $(PRAIRIE)); kernel=$(or $(KERNEL),6.1); \
	for work in files:1:640M processes:1:384M limits:1:1G huge:1:448M huge:2:512M limits:2:3G; do \
	    memory=$${work##*:}; cpus=$${work#*:}; cpus=$${cpus%:*}; work=$${work%%:*}; \
	    folder=$(TARGET)/recordings/$$kernel-$$work-$${cpus}cpu; \
	    vm/record --kernel $$kernel --timeout 900 --cpus $$cpus --memory $$memory $$work $$folder; \
	    $$PRAIRIE replay $$folder/trace.parquet --against $$folder; \
	done

vm-record-sizes: build ## Record stock kernels (KERNEL=6.12) on two NUMA nodes and with 16 GiB, and replay both
	@scripts/need qemu
	@set -e; export PRAIRIE=$(abspath $(PRAIRIE)); kernel=$(or $(KERNEL),6.1); \
	for machine in 'nodes:--nodes 2 --memory 1G' '16g:--memory 16G'; do \
	    folder=$(TARGET)/recordings-sizes/$$kernel-$${machine%%:*}; \
	    vm/record --kernel $$kernel --timeout 900 --cpus 2 $${machine#*:} files $$folder; \
	    $$PRAIRIE replay $$folder/trace.parquet --against $$folder; \
	done

vm-record-late: build ## Record stock kernels (KERNEL=6.12) on two NUMA nodes, with two zones, with a compiler at work, and without KASLR, and replay all
	@scripts/need qemu cc
	@set -e; export PRAIRIE=$(abspath $(PRAIRIE)); kernel=$(or $(KERNEL),6.1); \
	for record in 'nodes:files:--cpus 2 --nodes 2 --memory 1G' 'zones:files:--memory 768M --low 384M' 'compile:compile:--memory 768M' 'nokaslr:files:--memory 640M --append nokaslr'; do \
	    name=$${record%%:*}; options=$${record##*:}; work=$${record#*:}; work=$${work%%:*}; \
	    folder=$(TARGET)/recordings-late/$$kernel-$$name; \
	    vm/record --kernel $$kernel --timeout 900 $$options $$work $$folder; \
	    $$PRAIRIE replay $$folder/trace.parquet --against $$folder; \
	done

vm-record-long: build ## Record two hours of mixed work on a stock kernel (KERNEL=6.12), and replay them under every allocator
	@scripts/need qemu
	@$(CARGO) build --release --locked --package experiments --bin kernel_load
	@set -e; export PRAIRIE=$(abspath $(PRAIRIE)); folder=$(TARGET)/recordings-long/$(or $(KERNEL),6.12); \
	vm/record-hours --kernel $(or $(KERNEL),6.12) --hours $(or $(HOURS),2) $$folder; \
	$$PRAIRIE replay $$folder/trace.parquet --systems all

vm-lab: build ## Play a scenario of `prairie lab run` on Linux 6.1 and 7.3, with and without defrag mode, and compare
	@scripts/need qemu
	@$(CARGO) build --release --locked --package experiments --bins
	@PRAIRIE=$(abspath $(PRAIRIE)) bench/lab-defrag.sh $(or $(SEEDS),3) $(TARGET)/lab-runs
	@$(TARGET)/release/lab_on_kernels bench/lab-defrag-vm.toml $(TARGET)/lab-runs $(or $(SEEDS),3)

kernel-check: ## Apply the kernel's patches to both series, and compile its files (fetches 300 MB once)
	@scripts/need cc kernel
	@kernel/build 6.1 --sources >/dev/null
	@kernel/build 6.12 --objects mm/contiguitas/

kernel-test: build ## Build Contiguitas for Linux 6.12, boot it, and check what it promises (half an hour at first)
	@scripts/need cargo cc qemu ovmf kernel
	@kernel/test

licences: ## Check the licences and sources of all dependencies (needs cargo-deny)
	@scripts/need cargo cargo-deny
	@$(CARGO) deny --locked --all-features check licenses sources

# All of them at once: each is compiled from its package, against the packages of the others.
PUBLISHED = $(patsubst crates/%/Cargo.toml,%,$(shell grep -L '^publish = false' crates/*/Cargo.toml))
package: ## Package the crates that are published, and build each from its package
	@scripts/need cargo cc
	@# Cargo tells packages and what it compiled of them by version: those of an earlier run would
	@# stand in for today's.
	@rm -rf $(HOME)/.cargo/registry/src/-*/prairie-* $(TARGET)/packages/debug/.fingerprint/prairie-*
	@$(CARGO) package --locked --target-dir $(TARGET)/packages $(addprefix --package prairie-,$(PUBLISHED))

fuzz: ## Fuzz each parser for SECONDS_EACH=20 seconds (needs nightly Rust and cargo-fuzz)
	@scripts/need cargo cargo-fuzz
	@targets=$$($(CARGO) +nightly fuzz list) && for target in $$targets; do \
	    echo "== $$target"; \
	    $(CARGO) +nightly fuzz run "$$target" -- -max_total_time=$(SECONDS_EACH) || exit 1; \
	done

bench: ## List the benchmarks; each is one command
	@for script in bench/*.sh bench/python-*.py; do \
	    printf '%-28s %s\n' "$$script" "$$(sed -n '2s/^# *//p' "$$script")"; \
	done

clean: ## Remove what was built, and the report
	@$(CARGO) clean
	@rm -f $(REPORT)
