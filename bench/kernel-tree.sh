#!/bin/sh
# An ext4 image with the sources of Linux, configured and without objects, for guests that build it.
# Usage: bench/kernel-tree.sh IMAGE FOLDER
# FOLDER is one in which kernel/build built a kernel. Drivers, sound, and documentation are left out, except
# what the configuration reads.
set -eu
case ${1-} in -h | --help) exec "$(dirname "$0")/../scripts/usage" "$0" ;; esac

[ $# -eq 2 ] || { "$(dirname "$0")/../scripts/usage" "$0" >&2; exit 2; }
image=$1 built=$2
[ -x "$built/tools/objtool/objtool" ] || { echo "prairie: bench/kernel-tree.sh: $built: no kernel was built here" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/prairie-tree.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
tar -c -C "$built" --exclude='./vmlinux*' --exclude='./.tmp_*' --exclude=./prairie --exclude='./Documentation/*/*' \
    --exclude='./sound/*.[ch]' --exclude='./drivers/*.[ch]' . | tar -x -C "$work"
# Objects of the kernel are what the guest builds. Those of the build's own programs stay, as do the headers and
# the folder that they depend on: a guest has no C library to link them with.
find "$work" -name '*.[oa]' ! -path "$work/scripts/*" ! -path '*/tools/*' -delete
mkdir "$work/host"
(cd "$built" && pwd -P) >"$work/host/folder"
tar -c -C / --exclude=usr/include/c++ usr/include "$(dirname "$(cc -print-prog-name=cc1 | cut -c2-)")/include" | tar -x -C "$work/host"
# Without rustc make would configure the kernel again.
sed -i '/^ifneq "$(RUSTC_VERSION_TEXT)"/,/^endif/d' "$work/include/config/auto.conf.cmd"
PATH=$PATH:/sbin:/usr/sbin
rm -f "$image"
mke2fs -q -t ext4 -d "$work" "$image" 2G
