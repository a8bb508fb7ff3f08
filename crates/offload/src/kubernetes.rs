//! Pods and their containers by the names of cgroups, and which of them a rule selects.
//!
//! The kubelet names cgroups by one of two drivers, below a root that may be nested:
//!
//! ```text
//! systemd   kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
//! cgroupfs  kubepods/burstable/podUID/ID
//! ```
//!
//! Pods of the class Guaranteed have no level of their own. The names tell the QoS class and the
//! UID; namespace and labels come from elsewhere ([`Pods`]), and may be unknown.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// The quality of service of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Qos {
    /// Each container's requests equal its limits.
    Guaranteed,
    /// Some container has a request or a limit.
    Burstable,
    /// None has.
    #[serde(rename = "besteffort", alias = "best-effort")]
    BestEffort,
}

/// The cgroup of a pod, or of one of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCgroup<'a> {
    /// The class of the pod.
    pub qos: Qos,
    /// The UID of the pod; of a static pod the hash of its manifest.
    pub uid: String,
    /// The level of a container, as named.
    pub container: Option<&'a str>,
}

/// Levels of the deepest container: two of a nested root, the class, the pod, and itself.
const MAX_LEVELS: usize = 5;

/// The pod at `path` below the root of cgroup v2.
pub fn pod_of(path: &str) -> Option<PodCgroup<'_>> {
    let mut levels = path.split('/');
    // The kubelet's own root may be nested, below levels that are named after it (kind).
    let top = levels.by_ref().find(|level| !is_nesting(level))?;
    let (systemd, mut base) = match top.strip_suffix(".slice") {
        Some(base) if base == "kubepods" || is_nested(base) => (true, base),
        None if top == "kubepods" => (false, top),
        _ => return None,
    };
    let mut level = levels.next()?;
    let mut qos = Qos::Guaranteed;
    for (class, name) in [(Qos::Burstable, "burstable"), (Qos::BestEffort, "besteffort")] {
        if below(level, base, systemd) == Some(name) {
            qos = class;
            base = level.strip_suffix(".slice").unwrap_or(level);
            level = levels.next()?;
            break;
        }
    }
    let uid = below(level, base, systemd)?.strip_prefix("pod").filter(|uid| !uid.is_empty())?;
    let container = levels.next();
    // What a container nests within itself is its own, and a runtime's monitor is no container.
    if levels.next().is_some() || container.is_some_and(|name| name.starts_with("crio-conmon-")) {
        return None;
    }
    // A dash would separate slices.
    let uid = if systemd { uid.replace('_', "-") } else { uid.to_owned() };
    Some(PodCgroup { qos, uid, container })
}

fn is_nesting(level: &str) -> bool {
    level == "kubelet" || level == "kubelet.slice"
}

fn is_nested(base: &str) -> bool {
    base == "kubelet-kubepods"
}

/// The name of a level without what its driver puts before and after it.
fn below<'a>(level: &'a str, base: &str, systemd: bool) -> Option<&'a str> {
    match systemd {
        true => level.strip_suffix(".slice")?.strip_prefix(base)?.strip_prefix('-'),
        false => Some(level),
    }
}

/// Whether pods may be below `path`, which has `depth` levels.
pub fn leads_to_pods(path: &str, depth: usize) -> bool {
    (path.starts_with("kubepods") || path.starts_with("kubelet")) && depth < MAX_LEVELS
}

/// What is known of a pod beyond the names of its cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: Option<String>,
    /// All of its labels.
    pub labels: Option<BTreeMap<String, String>>,
}

/// Pods by UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pods(pub BTreeMap<String, Pod>);

impl Pods {
    /// Adds data from another source; known data stays.
    pub fn add(&mut self, uid: String, pod: Pod) {
        let known = self.0.entry(uid).or_default();
        known.namespace = known.namespace.take().or(pod.namespace);
        known.labels = known.labels.take().or(pod.labels);
    }
}

/// Which pods a rule selects; what it does not mention may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodSelector {
    /// Of this class.
    pub qos: Option<Qos>,
    /// In this namespace.
    pub namespace: Option<String>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
}

/// Whether something is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// Not known yet: its labels or its namespace are missing.
    Unknown,
}

/// As a phrase.
impl fmt::Display for PodSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pods")?;
        match self.qos {
            Some(Qos::Guaranteed) => f.write_str(" of class Guaranteed")?,
            Some(Qos::Burstable) => f.write_str(" of class Burstable")?,
            Some(Qos::BestEffort) => f.write_str(" of class BestEffort")?,
            None => {}
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace}")?;
        }
        let mut labels = self.labels.iter();
        labels.try_for_each(|(key, value)| write!(f, " with {key}={value}"))
    }
}

impl PodSelector {
    /// Whether more than the names of cgroups is needed.
    pub fn needs_pods(&self) -> bool {
        self.namespace.is_some() || !self.labels.is_empty()
    }

    /// Whether it selects the cgroup at `path`.
    pub fn matches(&self, path: &str, pods: &Pods) -> Match {
        let Some(found) = pod_of(path) else { return Match::No };
        if self.qos.is_some_and(|qos| qos != found.qos) {
            return Match::No;
        }
        let pod = pods.0.get(&found.uid);
        let namespace = pod.and_then(|pod| pod.namespace.as_ref());
        let labels = pod.and_then(|pod| pod.labels.as_ref());
        let mut result = Match::Yes;
        if let Some(wanted) = &self.namespace {
            match namespace {
                Some(namespace) if namespace == wanted => {}
                Some(_) => return Match::No,
                None => result = Match::Unknown,
            }
        }
        for (key, wanted) in &self.labels {
            match labels.map(|labels| labels.get(key)) {
                Some(Some(value)) if value == wanted => {}
                Some(_) => return Match::No,
                None => result = Match::Unknown,
            }
        }
        result
    }
}

/// The labels of a downward-API volume: `key="value"` a line, the value quoted as in Go.
pub fn labels_of_volume(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let value: String = serde_json::from_str(value.trim_end()).ok()?;
        Some((key.to_owned(), value))
    };
    text.lines().filter_map(pair).collect()
}

/// The pods of a file: an object of UIDs, each with an object of labels, or a `PodList` as the API
/// server and the kubelet answer.
///
/// # Errors
/// What is wrong, in one line.
pub fn pods_of_file(text: &str) -> Result<Pods, String> {
    let read: PodsText = serde_json::from_str(text).map_err(|_| {
        "expected JSON: an object of pod UIDs with their labels, or a PodList".to_owned()
    })?;
    let mut pods = Pods::default();
    match read {
        PodsText::List { items } => {
            for PodText { metadata } in items {
                // The cgroups of a static pod carry the hash of its manifest.
                let hash = metadata.annotations.get("kubernetes.io/config.hash");
                let uid = hash.unwrap_or(&metadata.uid).clone();
                let labels = Some(metadata.labels);
                pods.add(uid, Pod { namespace: metadata.namespace, labels });
            }
        }
        PodsText::Labels(all) => {
            for (uid, labels) in all {
                pods.add(uid, Pod { namespace: None, labels: Some(labels) });
            }
        }
    }
    Ok(pods)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PodsText {
    List { items: Vec<PodText> },
    Labels(BTreeMap<String, BTreeMap<String, String>>),
}

#[derive(Deserialize)]
struct PodText {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "3f1e2a64-9c3b-4d53-8a8e-0b5e52d2b6aa";

    #[test]
    fn both_drivers_name_class_pod_and_container() {
        let slice = UID.replace('-', "_");
        let id = "8d2f0c1b7a6e5d4c3b2a19080706050403020100ffeeddccbbaa998877665544";
        let of = |path: &str| {
            let found = pod_of(path)?;
            Some((found.qos, found.uid, found.container.map(str::to_owned)))
        };
        let (guaranteed, burstable, best) = (Qos::Guaranteed, Qos::Burstable, Qos::BestEffort);
        let scope = format!("cri-containerd-{id}.scope");
        for (path, qos, container) in [
            (format!("kubepods.slice/kubepods-pod{slice}.slice"), guaranteed, None),
            (
                format!(
                    "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/{scope}"
                ),
                burstable,
                Some(&*scope),
            ),
            (
                format!(
                    "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
                     kubelet-kubepods-besteffort-pod{slice}.slice/{scope}"
                ),
                best,
                Some(&*scope),
            ),
            (format!("kubepods/pod{UID}/{id}"), guaranteed, Some(id)),
            (format!("kubepods/burstable/pod{UID}"), burstable, None),
            (format!("kubelet/kubepods/besteffort/pod{UID}/{id}"), best, Some(id)),
        ] {
            let expected = Some((qos, UID.to_owned(), container.map(str::to_owned)));
            assert_eq!(of(&path), expected, "{path}");
        }
        for none in [
            "kubepods.slice",
            "kubepods/burstable",
            "kubepods/burstable/pod",
            "kubepods/podx/y/z",
            "system.slice/kubelet.service",
            "kubepods.slice/kubepods-burstable.slice/kubepods-podx.slice",
            "kubepods.slice/kubepods-podx.slice/crio-conmon-1.scope",
            "user.slice/kubepods/podx",
            "",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    fn pods() -> Pods {
        let text = format!(r#"{{"{UID}": {{"app": "web", "tier": "front"}}}}"#);
        pods_of_file(&text).unwrap()
    }

    fn selector(namespace: Option<&str>, labels: &[(&str, &str)]) -> PodSelector {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let namespace = namespace.map(str::to_owned);
        PodSelector { qos: None, namespace, labels: labels.collect() }
    }

    #[test]
    fn labels_that_are_not_known_are_neither_there_nor_missing() {
        let known = format!("kubepods/pod{UID}/c");
        let web = selector(None, &[("app", "web")]);
        assert_eq!(web.matches(&known, &pods()), Match::Yes);
        assert_eq!(selector(None, &[("app", "db")]).matches(&known, &pods()), Match::No);
        assert_eq!(selector(None, &[("role", "web")]).matches(&known, &pods()), Match::No);
        assert_eq!(web.matches("kubepods/podother/c", &pods()), Match::Unknown);
        assert_eq!(web.matches("system.slice", &pods()), Match::No);
        let shop = selector(Some("shop"), &[("app", "web")]);
        assert_eq!(shop.matches(&known, &pods()), Match::Unknown);
        let mut pods = pods();
        pods.add(UID.into(), Pod { namespace: Some("shop".into()), labels: None });
        assert_eq!(shop.matches(&known, &pods), Match::Yes);
        let guaranteed = PodSelector { qos: Some(Qos::Guaranteed), ..PodSelector::default() };
        assert_eq!(guaranteed.matches("kubepods/podother", &pods), Match::Yes);
        let burstable = PodSelector { qos: Some(Qos::Burstable), ..web };
        assert_eq!(burstable.matches("kubepods/podother", &pods), Match::No, "the class is known");
    }

    #[test]
    fn a_list_of_pods_as_the_api_answers() {
        let text = r#"{"kind": "PodList", "items": [
            {"metadata": {"uid": "a-b", "namespace": "shop", "labels": {"app": "web"}}, "spec": {}},
            {"metadata": {"uid": "c", "namespace": "kube-system",
                          "annotations": {"kubernetes.io/config.hash": "0123"}}}]}"#;
        let pods = pods_of_file(text).unwrap();
        assert_eq!(pods.0.keys().collect::<Vec<_>>(), ["0123", "a-b"]);
        assert_eq!(pods.0["a-b"].namespace.as_deref(), Some("shop"));
        assert_eq!(pods.0["0123"].labels, Some(BTreeMap::new()), "it has none, for sure");
        assert!(pods_of_file("[]").unwrap_err().starts_with("expected JSON"));
    }

    #[test]
    fn labels_of_a_volume() {
        let labels = labels_of_volume("app=\"web\"\nnote=\"a \\\"b\\\"\"\nbroken\nx=1\n");
        let expected = [("app", "web"), ("note", "a \"b\"")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(labels, BTreeMap::from(expected));
    }

    proptest! {
        #[test]
        fn garbage_is_no_pod_or_one_with_a_uid(
            path in "(kube(pods|let)(\\.slice)?/)?[a-z0-9./_-]{0,80}|\\PC{0,60}",
            text in "[\\[\\]{}:,\"a-z0-9=]{0,80}",
        ) {
            if let Some(pod) = pod_of(&path) {
                prop_assert!(!pod.uid.is_empty());
                prop_assert!(leads_to_pods(path.rsplit_once('/').unwrap().0, 1));
            }
            let _ = (pods_of_file(&text), labels_of_volume(&text));
        }
    }
}
