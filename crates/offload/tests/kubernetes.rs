//! Rules for pods on the cgroups and kubelet files of a node, as both cgroup drivers name them.
#![allow(missing_docs)]

mod tree;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use prairie_offload::check::check;
use prairie_offload::daemon::Daemon;
use prairie_offload::world::probe::Host;
use tree::{MIB, Tree};

const SYSTEMD: &str = include_str!("data/kubernetes/systemd.txt");
const CGROUPFS: &str = include_str!("data/kubernetes/cgroupfs.txt");

/// The tree of a node.
fn node(text: &str) -> Tree {
    let tree = Tree::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(path) = line.strip_prefix("cgroup/") {
            tree.cgroup(path, 400 * MIB);
            continue;
        }
        let (path, contents) = line.split_once(' ').unwrap();
        let path = tree.path("..").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents.replace("\\n", "\n")).unwrap();
    }
    tree
}

/// A configuration with these rules; `pods` is the file of labels, if there is one.
fn config(tree: &Tree, rules: &str, pods: bool) -> String {
    let file = |name: &str| tree.path("..").join(name);
    let (kubelet, logs) = (file("kubelet"), file("logs"));
    let pods = if pods { format!("pods = {:?}\n", file("pods.json")) } else { String::new() };
    format!(
        "[daemon]\nreturn_cost = \"27us\"\ntriggers = false\n\
         [kubernetes]\nkubelet = {kubelet:?}\nlogs = {logs:?}\n{pods}{rules}"
    )
}

/// The rule of each container, by the last four letters of its name.
fn rules(daemon: &Daemon) -> BTreeMap<String, usize> {
    let status = daemon.status().lock().clone();
    let container = |path: &str| {
        let name = path.rsplit('/').next().unwrap().trim_end_matches(".scope");
        name[name.len() - 4..].to_owned()
    };
    status.cgroups.iter().map(|cgroup| (container(&cgroup.path), cgroup.rule)).collect()
}

fn expected(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(name, rule)| ((*name).to_owned(), *rule)).collect()
}

#[test]
fn classes_of_pods_are_told_apart_by_either_driver() {
    let by_class = "[[rule]]\nkubernetes = { qos = \"guaranteed\" }\n\
                    [[rule]]\nkubernetes = { qos = \"burstable\" }\n\
                    [[rule]]\nkubernetes = { qos = \"besteffort\" }\nprofile = \"aggressive\"\n";
    for text in [SYSTEMD, CGROUPFS] {
        let tree = node(text);
        let mut daemon = tree.daemon(&config(&tree, by_class, false));
        daemon.tick(Duration::ZERO);
        let found = rules(&daemon);
        let all = [("11aa", 1), ("11bb", 1), ("22aa", 2), ("44aa", 2), ("33aa", 3)];
        assert_eq!(found, expected(&all), "containers, not the pods above them or what they nest");
    }
}

#[test]
fn namespaces_and_labels_come_from_files_of_the_node() {
    let by_label = "[[rule]]\nkubernetes = { labels = { app = \"web\" } }\n\
                    [[rule]]\nkubernetes = { namespace = \"kube-system\" }\n";
    for text in [SYSTEMD, CGROUPFS] {
        let tree = node(text);
        let mut daemon = tree.daemon(&config(&tree, by_label, false));
        daemon.tick(Duration::ZERO);
        // The kubelet's files have the labels of web alone. Whether the others have the label
        // is not known: no later rule may take them, not even etcd by its namespace.
        assert_eq!(rules(&daemon), expected(&[("11aa", 1), ("11bb", 1)]));
        let tree = node(text);
        let by_namespace = by_label.split_at(by_label.rfind("[[rule]]").unwrap()).1;
        let mut daemon = tree.daemon(&config(&tree, by_namespace, false));
        daemon.tick(Duration::ZERO);
        assert_eq!(rules(&daemon), expected(&[("44aa", 1)]));
    }
}

#[test]
fn a_pod_is_left_alone_until_its_labels_are_known() {
    let with_rest = "[[rule]]\nkubernetes = { labels = { app = \"cart\" } }\n\
                     [[rule]]\nkubernetes = { qos = \"burstable\" }\nprofile = \"aggressive\"\n";
    let tree = node(SYSTEMD);
    let file = tree.path("../pods.json");
    let mut daemon = tree.daemon(&config(&tree, with_rest, true));
    daemon.tick(Duration::ZERO);
    assert_eq!(rules(&daemon), expected(&[]));
    fs::write(&file, r#"{"7c2e8d14-51b7-4f0c-b1a9-2d4e6f8a9b22": {"app": "cart"}}"#).unwrap();
    daemon.tick(Duration::from_secs(10));
    assert_eq!(rules(&daemon), expected(&[("22aa", 1)]), "no directory has changed");
    let etcd = r#"{"items": [{"metadata": {"uid": "mirror", "namespace": "kube-system",
        "annotations": {"kubernetes.io/config.hash": "4b1f6c0d2e9a8b7c6d5e4f3a2b1c0d9e"}}},
        {"metadata": {"uid": "7c2e8d14-51b7-4f0c-b1a9-2d4e6f8a9b22", "labels": {"app": "x"}}}]}"#;
    fs::write(&file, etcd).unwrap();
    daemon.tick(Duration::from_secs(20));
    assert_eq!(rules(&daemon), expected(&[("22aa", 2), ("44aa", 2)]), "a static pod has none");
    fs::write(&file, "{").unwrap();
    daemon.tick(Duration::from_secs(30));
    let before = expected(&[("22aa", 2), ("44aa", 2)]);
    assert_eq!(rules(&daemon), before, "a file that is only half written");
    fs::write(&file, "{}").unwrap();
    daemon.tick(Duration::from_secs(40));
    assert_eq!(rules(&daemon), expected(&[]), "what is no longer known");
}

#[test]
fn a_check_names_what_is_missing() {
    let tree = node(SYSTEMD);
    let rules = "[[rule]]\nkubernetes = { labels = { app = \"cart\" } }\n\
                 [[rule]]\nkubernetes = { namespace = \"nowhere\" }\n";
    let log = prairie_daemon::log::Log::new(
        prairie_daemon::log::Format::Text,
        prairie_daemon::log::Verbosity::Quiet,
        Box::new(std::io::sink()),
    );
    let host: Host = tree.setting(log, true).host;
    let config = tree.config(&config(&tree, rules, true));
    let findings: Vec<String> =
        check(&host, Some(&config)).into_iter().map(|finding| finding.found).collect();
    let some = |part: &str| findings.iter().any(|found| found.contains(part));
    assert!(some("pods.json: No such file"), "{findings:?}");
    assert!(some("22aa.scope: rule 1 needs labels or a namespace"), "{findings:?}");
    assert!(some("no cgroup matches pods in namespace nowhere"), "{findings:?}");
}
