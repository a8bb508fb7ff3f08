//! What the files of a node say about its pods.
//!
//! The kubelet's files hold no labels; only a pod's own volumes may: a pod that mounts its labels
//! by the downward API has them in a file named `labels`. The labels of all pods come from a file
//! that another program keeps up to date. Namespaces are part of the names of the folders in which
//! the kubelet collects logs, `NAMESPACE_NAME_UID`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::kubernetes::{Pod, Pods, labels_of_volume, pods_of_file};

/// Where pods are described.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodFiles {
    /// A file with the labels of all pods, as JSON.
    pub pods: Option<PathBuf>,
    /// The kubelet's folder, for volumes of the downward API.
    pub kubelet: PathBuf,
    /// The folder of the pods' logs, for namespaces.
    pub logs: PathBuf,
}

impl Default for PodFiles {
    fn default() -> PodFiles {
        let (kubelet, logs) = ("/var/lib/kubelet".into(), "/var/log/pods".into());
        PodFiles { pods: None, kubelet, logs }
    }
}

/// The kinds of volumes that may hold labels, as the kubelet names their folders.
const VOLUMES: [&str; 2] = ["kubernetes.io~downward-api", "kubernetes.io~projected"];

/// No file of labels is longer; what claims to be is not read.
const MAX_BYTES: u64 = 64 << 20;

/// Reads what there is. What cannot be read is not known; of the file of labels, the reason is
/// returned.
pub fn read(files: &PodFiles) -> (Pods, Option<String>) {
    let listed = files.pods.as_deref().map_or(Ok(Pods::default()), list);
    let (mut pods, trouble) = match listed {
        Ok(pods) => (pods, None),
        Err(trouble) => (Pods::default(), Some(trouble)),
    };
    for uid in names(&files.kubelet.join("pods")) {
        let volumes = files.kubelet.join("pods").join(&uid).join("volumes");
        if let Some(labels) = VOLUMES.iter().find_map(|kind| volume(&volumes.join(kind))) {
            pods.add(uid, Pod { namespace: None, labels: Some(labels) });
        }
    }
    for name in names(&files.logs) {
        // None of the three may contain an underscore.
        let mut parts = name.split('_');
        if let (Some(namespace), Some(_), Some(uid), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            let namespace = Some(namespace.to_owned());
            pods.add(uid.to_owned(), Pod { namespace, labels: None });
        }
    }
    (pods, trouble)
}

fn list(path: &Path) -> Result<Pods, String> {
    let at = |reason: String| format!("{}: {reason}", path.display());
    let size = fs::metadata(path).map_err(|error| at(error.to_string()))?.len();
    if size > MAX_BYTES {
        return Err(at(format!("{size} bytes: expected at most {MAX_BYTES}")));
    }
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    pods_of_file(&text).map_err(at)
}

/// The labels of the first volume below `kind` that has some.
fn volume(kind: &Path) -> Option<std::collections::BTreeMap<String, String>> {
    let text = |name: String| fs::read_to_string(kind.join(name).join("labels")).ok();
    names(kind).into_iter().find_map(text).map(|text| labels_of_volume(&text))
}

/// The names in a folder, sorted; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
