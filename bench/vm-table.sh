# Cells of a table from what guests wrote. To be sourced; $folder has a folder for each run.

# results NAME: the lines of NAME's rounds, which are folders NAME-1, NAME-2 and so on, or of NAME.
results() { cat "$folder/$1/result" "$folder/$1"-[0-9]*/result 2>/dev/null || true; }

# row NAME CELL...: a row of a table from the words KEY=VALUE of the results. A cell is KEY,
# KEY/DIVISOR, or KEY%KEY for a share in percent; "" for a key that is not there. Where rounds differ
# it is the median with the least and the most.
row() {
    results "$1" | awk -v cells="$2" '
        function figure(name, part) {
            if (split(name, part, "%") == 2)
                return value[part[2]] > 0 ? sprintf("%.1f", 100 * value[part[1]] / value[part[2]]) : ""
            if (split(name, part, "/") == 2)
                return part[1] in value ? sprintf("%.*f", length(part[2]) > 4 ? 2 : 1, value[part[1]] / part[2]) : ""
            return value[name]
        }
        function add(cell, text, at) {
            for (at = ++count[cell]; at > 1 && found[cell, at - 1] + 0 > text + 0; at--)
                found[cell, at] = found[cell, at - 1]
            found[cell, at] = text
        }
        # Of an even number, the mean of the two in the middle, to as many places as they have.
        function median(cell, all, below, above, places) {
            all = count[cell]
            below = found[cell, int((all + 1) / 2)]; above = found[cell, int(all / 2) + 1]
            if (below == above) return below
            places = match(below, /[.].*/) ? RLENGTH - 1 : (below + above) % 2
            return sprintf("%.*f", places, (below + above) / 2)
        }
        function summary(cell, all, least, middle, most) {
            all = count[cell]
            least = found[cell, 1]; middle = median(cell); most = found[cell, all]
            if (least != most) return "\"" middle " (" least "–" most ")\""
            return middle ~ /^-?[0-9]+([.][0-9]+)?$/ ? middle : "\"" middle "\""
        }
        BEGIN { wanted = split(cells, name, " ") }
        {
            split("", value)
            for (at = 1; at <= NF; at++) {
                equals = index($at, "=")
                value[substr($at, 1, equals - 1)] = substr($at, equals + 1)
            }
            for (at = 1; at <= wanted; at++) add(at, figure(name[at]))
        }
        END { for (at = 1; at <= wanted; at++) printf "%s%s", (at > 1 ? ", " : ""), summary(at) }'
}

# kind_rows KERNEL AGENTS CELLS: a row for each load of vm/regions/kinds.sh and each agent.
kind_rows() {
    kinds=
    for kind in "tables:page tables, 300 MiB" "dentries:a million dentries" "forks:400 processes of 2 MiB" \
        "pins:io_uring pins, 256 MiB" "splices:vmsplice, 64 MiB"; do
        for agent in $2; do
            # A guest that complained has no result of its own, though it has some of its loads.
            [ -s "$folder/kinds-$1-$agent/result" ] || continue
            kinds="$kinds${kinds:+, }[\"${kind#*:}\", $(row "kinds-$1-$agent/${kind%%:*}" "agent $3")]"
        done
    done
    echo "$kinds"
}
