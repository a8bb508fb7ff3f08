# Cells of a table from what a guest wrote. To be sourced; $folder has a folder for each run.

# row NAME CELL...: a row of a table from the words KEY=VALUE of a result. A cell is KEY, KEY/DIVISOR,
# or KEY%KEY for a share in percent; "" for a key that is not there.
row() {
    tr ' ' '\n' <"$folder/$1/result" | awk -v cells="$2" '
        { at = index($0, "="); value[substr($0, 1, at - 1)] = substr($0, at + 1) }
        function cell(name, part) {
            if (split(name, part, "%") == 2)
                return value[part[2]] > 0 ? sprintf("%.1f", 100 * value[part[1]] / value[part[2]]) : "\"\""
            if (split(name, part, "/") == 2)
                return part[1] in value ? sprintf("%.*f", length(part[2]) > 4 ? 2 : 1, value[part[1]] / part[2]) : "\"\""
            if (!(name in value)) return "\"\""
            return value[name] ~ /^[0-9]+$/ ? value[name] : "\"" value[name] "\""
        }
        END {
            count = split(cells, wanted, " ")
            for (at = 1; at <= count; at++) printf "%s%s", (at > 1 ? ", " : ""), cell(wanted[at])
        }'
}
