# The commands of this repository; `make` alone lists them. Every one is safe to repeat and says what it is doing.
# Not the build rules: those are CMake's (CMakeLists.txt, CMakePresets.json).
.DEFAULT_GOAL := help
.PHONY: help setup setup-media build media-plugin demo test test-long check format clean

# Parallel compile jobs: all cores, but never more than the memory allows (one job wants up to 1.5 GB).
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ { jobs = int($$2 / 1500000); if (jobs > cores) jobs = cores; if (jobs < 1) jobs = 1; print jobs }' /proc/meminfo)

help:
	@echo 'minicpm.cpp: MiniCPM-V and MiniCPM-o on a CPU'
	@echo
	@echo '  make build      install what is missing, build build/release/bin/minicpm'
	@echo '  make media-plugin  build, then the plugin for MP4, MKV, cameras and RTSP (FFmpeg, a GPL build in Debian: see NOTICE)'
	@echo '  make demo       build, then ask the bundled tiny model about a real picture'
	@echo '  make test       build everything, run the static checks and the whole test suite'
	@echo '  make test-long  sanitizers, fuzzers, mutations, emulated CPUs; rewrites docs/verification.md (an hour or more)'
	@echo '  make check      formatting, include layers, words, documents (tools/check --tidy for clang-tidy)'
	@echo '  make format     clang-format 19 on every C++ file'
	@echo '  make clean      remove build/'
	@echo
	@echo 'README.md tells how to run it, docs/architecture.md how it is built.'

setup:
	@echo '== setup: Debian packages'
	@tools/setup

setup-media:
	@echo '== setup: Debian packages, FFmpeg for the media plugin among them'
	@tools/setup --media

build: setup
	@echo '== build: configure (preset release)'
	@cmake --preset release
	@echo '== build: compile and link the program ($(JOBS) jobs)'
	@cmake --build --preset release --parallel $(JOBS) --target minicpm_cli

media-plugin: setup-media
	@cmake --preset release
	@cmake --build --preset release --parallel $(JOBS) --target minicpm_cli minicpm_media_ffmpeg

demo: build
	@tools/demo

test: setup-media
	@echo '== test: include layers and words'
	@tools/check-layers --self-test
	@tools/check-layers
	@tools/check-words --self-test
	@tools/check-words
	@echo '== test: configure (preset release)'
	@cmake --preset release
	@echo '== test: compile and link everything ($(JOBS) jobs)'
	@cmake --build --preset release --parallel $(JOBS)
	@echo '== test: documents against the program'
	@tools/check-docs
	@echo '== test: ctest, labels unit kernel golden model'
	@ctest --preset release --no-tests=error

test-long:
	@tools/test-long

check:
	@tools/check

format:
	@tools/format

clean:
	@echo '== clean: removing build/'
	@rm -rf build
