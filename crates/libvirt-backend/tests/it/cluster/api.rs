//! What the API server answers, and what is in its cluster.

use axum::http::Uri;
use serde_json::{Value, json};

use super::NODE;

/// Whether the node is Ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ready {
    /// It did not register yet.
    #[default]
    Unknown,
    /// Not yet, and is after it was asked for so many more times.
    After(u32),
    Never,
}

/// A pod on the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pod {
    pub(crate) name: &'static str,
    /// The kind of its controller.
    pub(crate) owner: Option<&'static str>,
    /// A static pod's image in the API.
    pub(crate) mirror: bool,
    /// A budget that does not let it go.
    pub(crate) held: bool,
    /// How often it is still listed after its eviction.
    pub(crate) going: Option<u32>,
}

impl Pod {
    pub(crate) fn of(name: &'static str, owner: Option<&'static str>) -> Self {
        Self {
            name,
            owner,
            ..Self::default()
        }
    }

    fn describe(&self) -> Value {
        let mut metadata = json!({ "name": self.name, "namespace": "default", "uid": format!("uid-{}", self.name) });
        if let Some(kind) = self.owner {
            let owner = json!({ "apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": true });
            metadata["ownerReferences"] = json!([owner]);
        }
        if self.mirror {
            metadata["annotations"] = json!({ "kubernetes.io/config.mirror": "0123" });
        }
        if self.going.is_some() {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "nodeName": NODE, "containers": [] }, "status": { "phase": "Running" },
        })
    }
}

pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Answer {
    fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    pub(super) fn failure(code: u16, reason: &str, message: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": code,
        });
        Self { code, body }
    }

    fn forbidden(user: &str, what: &str) -> Self {
        Self::failure(403, "Forbidden", &format!("User \"{user}\" cannot {what}"))
    }
}

/// All that the cluster knows.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) ready: Ready,
    pub(crate) cordoned: bool,
    pub(crate) pods: Vec<Pod>,
    asked: Vec<String>,
}

impl State {
    /// Whether a request of this form was answered so: `USER METHOD PATH CODE`, without the user.
    pub(crate) fn was_asked(&self, request: &str) -> bool {
        let request = format!("system:node:{NODE} {request}");
        self.asked.contains(&request)
    }

    /// All that was asked, for the message of a test that fails.
    pub(crate) fn asked(&self) -> String {
        self.asked.join("\n")
    }

    pub(super) fn note(&mut self, request: String) {
        self.asked.push(request);
    }

    pub(super) fn answer(&mut self, user: &str, method: &str, uri: &Uri, body: &[u8]) -> Answer {
        let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        match (method, &path[..]) {
            ("GET", ["api"]) => Answer::ok(json!({ "kind": "APIVersions", "versions": ["v1"] })),
            ("GET", ["apis"]) => Answer::ok(groups()),
            ("GET", ["api", "v1"]) => Answer::ok(resources("v1", &["nodes", "pods", "pods/eviction", "namespaces"])),
            ("GET", ["apis", "policy", "v1"]) => Answer::ok(resources("policy/v1", &["poddisruptionbudgets"])),
            ("GET", ["apis", "apps", "v1"]) => Answer::ok(resources("apps/v1", &["daemonsets"])),
            ("GET", ["apis", group @ "authentication.k8s.io", "v1"]) => {
                Answer::ok(resources(&format!("{group}/v1"), &["selfsubjectreviews"]))
            }
            ("POST", ["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"]) => Answer {
                code: 201,
                body: json!({
                    "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
                    "status": { "userInfo": { "username": user, "groups": ["system:nodes"] } },
                }),
            },
            ("GET", ["api", "v1", "nodes", NODE]) => self.node(),
            ("PATCH", ["api", "v1", "nodes", NODE]) => self.patch(body),
            ("DELETE", ["api", "v1", "nodes", _]) => Answer::forbidden(user, "delete resource \"nodes\""),
            ("GET", ["api", "v1", "pods"]) => self.list(user, uri.query().unwrap_or_default()),
            ("GET", ["api", "v1", "namespaces", "default", "pods", name]) => self.pod(name),
            ("POST", ["api", "v1", "namespaces", "default", "pods", name, "eviction"]) => self.evict(name, body),
            ("GET", ["apis", "apps", ..]) => Answer::forbidden(user, "get resource \"daemonsets\""),
            _ => Answer::failure(404, "NotFound", "the server could not find the requested resource"),
        }
    }

    fn node(&mut self) -> Answer {
        let status = match &mut self.ready {
            Ready::Unknown => return Answer::failure(404, "NotFound", &format!("nodes \"{NODE}\" not found")),
            Ready::Never => "False",
            Ready::After(0) => "True",
            Ready::After(more) => {
                *more -= 1;
                "False"
            }
        };
        let (reason, message) = match status {
            "True" => ("KubeletReady", "kubelet is posting ready status"),
            _ => ("KubeletNotReady", "container runtime network not ready"),
        };
        let condition = json!({ "type": "Ready", "status": status, "reason": reason, "message": message });
        Answer::ok(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE, "uid": "n" },
            "spec": { "unschedulable": self.cordoned }, "status": { "conditions": [condition] },
        }))
    }

    fn patch(&mut self, body: &[u8]) -> Answer {
        let patch: Value = serde_json::from_slice(body).unwrap_or_default();
        if patch["spec"]["unschedulable"] != true {
            return Answer::failure(422, "Invalid", "this cluster knows no patch but a cordon");
        }
        self.cordoned = true;
        self.node()
    }

    fn list(&mut self, user: &str, query: &str) -> Answer {
        let selector = format!("spec.nodeName={NODE}");
        let own = ["%3D", "="].map(|sign| format!("fieldSelector={}", selector.replace('=', sign)));
        if !query.split('&').any(|pair| own.iter().any(|own| own == pair)) {
            return Answer::forbidden(user, "list pods of other nodes");
        }
        let items: Vec<Value> = self.pods.iter().map(Pod::describe).collect();
        // A pod takes a moment to end.
        self.pods.retain(|pod| pod.going != Some(0));
        for left in self.pods.iter_mut().filter_map(|pod| pod.going.as_mut()) {
            *left -= 1;
        }
        Answer::ok(json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items }))
    }

    fn pod(&self, name: &str) -> Answer {
        match self.pods.iter().find(|pod| pod.name == name) {
            Some(pod) => Answer::ok(pod.describe()),
            None => Answer::failure(404, "NotFound", &format!("pods \"{name}\" not found")),
        }
    }

    fn evict(&mut self, name: &str, body: &[u8]) -> Answer {
        let eviction: Value = serde_json::from_slice(body).unwrap_or_default();
        if eviction["kind"] != "Eviction" || eviction["metadata"]["name"] != name {
            return Answer::failure(400, "BadRequest", "no eviction of that pod");
        }
        let Some(pod) = self.pods.iter_mut().find(|pod| pod.name == name) else {
            return self.pod(name);
        };
        if pod.held {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Answer::failure(429, "TooManyRequests", message);
        }
        pod.going.get_or_insert(1);
        let done = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
        Answer { code: 201, body: done }
    }
}

fn groups() -> Value {
    let group = |name: &str| {
        let version = json!({ "groupVersion": format!("{name}/v1"), "version": "v1" });
        json!({ "name": name, "versions": [version], "preferredVersion": version })
    };
    let groups = ["policy", "apps", "authentication.k8s.io"].map(group);
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn resources(version: &str, names: &[&str]) -> Value {
    let resource = |name: &&str| {
        let (kind, namespaced) = match *name {
            "nodes" => ("Node", false),
            "namespaces" => ("Namespace", false),
            "pods" => ("Pod", true),
            "daemonsets" => ("DaemonSet", true),
            "poddisruptionbudgets" => ("PodDisruptionBudget", true),
            "selfsubjectreviews" => ("SelfSubjectReview", false),
            "pods/eviction" => {
                return json!({
                    "name": name, "singularName": "", "namespaced": true, "kind": "Eviction",
                    "group": "policy", "version": "v1", "verbs": ["create"],
                });
            }
            other => panic!("{other} is no resource of this cluster"),
        };
        let verbs = ["get", "list", "create", "patch", "delete"];
        json!({ "name": name, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind, "verbs": verbs })
    };
    let resources: Vec<Value> = names.iter().map(resource).collect();
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources })
}
