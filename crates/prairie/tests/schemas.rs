//! Each document of `--json` follows its schema in `schemas/`, and a schema names every field.
#![allow(missing_docs)]

mod common;
mod schema;
mod stall_recording;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use common::{is_root, run, stderr, stdout, write_proc};
use schema::{check, errors, schema, schemas};

/// Commands and the files that they need, in one folder; each prints one document.
const COMMANDS: &[&str] = &[
    "survey --from data/mixed.parquet --json",
    "survey --proc proc --json",
    "survey --proc proc --host h1 --summary -",
    "fleet run --out study --servers 2 --identity",
    "diff a.json b.json --fail-if failed>1 --json",
    "sources data/boot-files/trace.parquet --json",
    "replay data/boot-files/trace.parquet --systems buddy,linux,contiguitas --json",
    "replay data/mixed.parquet --systems linux --json",
    "replay data/boot-files/trace.parquet --against data/boot-files --json",
    "import trace.txt -o imported.parquet --json",
    "lab run data/small.toml --systems buddy,contiguitas --json",
    "lab run data/small.toml --systems buddy --seeds 2 --json",
    "lab bench --machine small --systems buddy --light --json",
    "lab explain data/small.toml --json",
    "lab explain data/small.toml --seeds 2 --json",
    "lab tmo figure-2 --json",
    "lab translation --memory 1G --visits 20000 --json",
    "lab translation --memory 1G --visits 20000 --seeds 2 --json",
    "heap driver --heap 4M --time 1s --json",
    "migrate sim --requests 10 --warm-up 1 --rate 1000 --json",
    "migrate sim --requests 10 --warm-up 1 --rate 1000 --seeds 2 --json",
    "migrate sim --parameters --json",
    "migrate check --variant two-ptrs --json",
    "migrate check --random 2000 --json",
    "migrate profile --stream hot --requests 20 --json",
    "migrate paper --requests 1 --json",
    "migrate paper --requests 1 --seeds 2 --json",
    "psi --count 1 --interval 10ms --json",
    "heap stats --all --json",
    "explain oom.log --json",
    "stalls --from stalls.parquet --json",
    "log show log --json",
    "top --once --json --interval 100ms --proc proc",
    "top --once --json --at 0s --log log",
    "offload check --json",
    "regions check --json",
    "fleet report study --json",
    "fleet report rows --json",
];

fn prepare(folder: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    std::os::unix::fs::symlink(data.canonicalize().unwrap(), folder.join("data")).unwrap();
    let free = "Node 0, zone   Normal 1 1 1 1 1 1 1 1 2 1 1\n";
    write_proc(folder, &[("buddyinfo", free)]);
    let line = "  cc1-7 [001] .... 1.000001: mm_page_alloc: page=0x0 pfn=0x200 order=0 \
                migratetype=1 gfp_flags=GFP_KERNEL\n";
    fs::write(folder.join("trace.txt"), line).unwrap();
    for (name, failed) in [("a.json", 1), ("b.json", 3)] {
        let document = json!({"schema": "prairie-lab-run", "failed": failed, "only": name.len()});
        fs::write(folder.join(name), document.to_string()).unwrap();
    }
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures/kernel-logs");
    fs::copy(logs.join("3.10-oom.log"), folder.join("oom.log")).unwrap();
    stall_recording::recording(&folder.join("stalls.parquet"));
    let study = "fleet run --out study --servers 2 --memory 128M --days 0.01 --workloads web";
    fs::create_dir(folder.join("rows")).unwrap();
    let rows = "survey --proc proc --host h1 --summary rows --label rack=r7";
    for command in [study, rows, "log run log --once --proc proc"] {
        let words: Vec<&str> = command.split(' ').collect();
        let output = run(folder, &words);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    }
}

#[test]
fn documents_follow_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut checked = BTreeSet::new();
    let mut failures = Vec::new();
    for command in COMMANDS {
        let words: Vec<&str> = command.split(' ').collect();
        let output = run(folder.path(), &words);
        let Ok(document) = serde_json::from_str::<Value>(&stdout(&output)) else {
            failures.push(format!("{command}: {}", stderr(&output)));
            continue;
        };
        if let Some(folder) = std::env::var_os("PRAIRIE_KEEP_DOCUMENTS") {
            let name = format!(
                "{}-{}.json",
                document["schema"].as_str().unwrap(),
                failures.len() + checked.len()
            );
            fs::write(Path::new(&folder).join(name), stdout(&output)).unwrap();
        }
        match std::panic::catch_unwind(|| check(&document)) {
            Ok(name) => drop(checked.insert(name)),
            Err(error) => {
                failures.push(format!("{command}: {}", error.downcast_ref::<String>().unwrap()))
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(checked.len() >= 18, "{checked:?}");
}

/// What daemons report, with one container and one node.
#[test]
fn statuses_of_daemons_follow_their_schemas() {
    use prairie_offload::status::{CgroupStatus, ClassStatus, Status as Offload};
    use prairie_regions::status::{NodeStatus, Status as Regions};
    let (schema, cgroups) = ("prairie-offload-status".to_owned(), vec![CgroupStatus::default()]);
    let classes = vec![ClassStatus::default()];
    let schema_version = 1;
    let status = Offload { schema, schema_version, classes, cgroups, ..Offload::default() };
    check(&serde_json::to_value(status).unwrap());
    let (schema, nodes) = ("prairie-regions-status".to_owned(), vec![NodeStatus::default()]);
    check(
        &serde_json::to_value(Regions { schema, schema_version, nodes, ..Regions::default() })
            .unwrap(),
    );
}

/// Every schema has a name, a version, and the block of provenance.
#[test]
fn schemas_are_alike() {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(schemas()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let schema = schema(&name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        let properties = &schema["properties"];
        assert_eq!(properties["schema"]["const"], name.as_str());
        assert!(properties["schema_version"]["const"].is_u64(), "{name}");
        assert!(properties["provenance"].is_object(), "{name}");
        assert!(schema["description"].as_str().is_some_and(|text| text.len() > 20), "{name}");
        names.insert(name);
    }
    assert!(names.len() >= 18, "{names:?}");
}

/// The description of a schema names the commands that print it, so that each command has one.
#[test]
fn every_command_with_json_has_a_schema() {
    let files = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some()).collect::<Vec<_>>()
    };
    let description = |path: &PathBuf| {
        let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        schema["description"].as_str().map(str::to_owned)
    };
    let described: Vec<String> = files(&schemas()).iter().filter_map(description).collect();
    let helps = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help"));
    let with_json = helps.iter().filter(|path| {
        fs::read_to_string(path).unwrap().lines().any(|line| line.trim() == "--json")
    });
    let commands: Vec<String> = with_json
        .map(|path| path.file_stem().unwrap().to_str().unwrap().replace('-', " "))
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let named = format!("`prairie {command} ");
        assert!(described.iter().any(|text| text.contains(&named)), "no schema of {command}");
    }
}

#[test]
fn the_validator_finds_what_is_wrong() {
    let schema = json!({
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 0},
            "b": {"type": ["string", "null"]},
            "c": {"type": "array", "items": {"$ref": "#/$defs/part"}},
            "d": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "$defs": {"part": {"type": "object", "properties": {"x": {"const": 1}}}},
    });
    let count = |value: Value| {
        let mut found = Vec::new();
        errors(&schema, &schema, &value, "", &mut found);
        found.len()
    };
    assert_eq!(count(json!({"a": 1, "b": null, "c": [{"x": 1}], "d": {"any": 0.5}})), 0);
    for wrong in [
        json!({}),
        json!({"a": -1}),
        json!({"a": 1.5}),
        json!({"a": 1, "b": 1}),
        json!({"a": 1, "c": [{"x": 2}]}),
        json!({"a": 1, "c": [{"y": 2}]}),
        json!({"a": 1, "d": {"any": "text"}}),
        json!({"a": 1, "e": 1}),
        json!([]),
    ] {
        assert_eq!(count(wrong.clone()), 1, "{wrong}");
    }
}

/// Free lists without a block of the largest orders have indices of failure.
#[test]
fn a_survey_of_fragmented_memory_follows_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let free = "Node 0, zone   Normal 9 9 0 0 0 0 0 0 0 0 0\n";
    write_proc(folder.path(), &[("buddyinfo", free)]);
    let output = run(folder.path(), &["survey", "--proc", "proc", "--json"]);
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let indices = &document["zones"][0]["free_lists"]["indices"];
    assert!(indices[9]["at_failure"]["fragmentation_index"].is_number(), "{indices}");
    check(&document);
}

/// As root a survey of this host has everything that a survey can have.
#[test]
fn a_survey_of_this_host_follows_the_schema() {
    if !is_root() {
        prairie_testing::skip("needs root for the flags of frames");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["survey", "--json"]);
    check(&serde_json::from_str(&stdout(&output)).unwrap());
}
