//! A JSON schema, read as the shape of a configuration.

use serde_json::Value as Json;

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    root: &'a Json,
    at: &'a Json,
}

impl<'a> Node<'a> {
    pub(super) fn root(schema: &'a Json) -> Self {
        Self {
            root: schema,
            at: schema,
        }
    }

    /// Another place of the same schema.
    pub(super) fn of(self, at: &'a Json) -> Self {
        Self { at, ..self }
    }

    /// The place itself.
    pub(super) fn json(self) -> &'a Json {
        self.at
    }

    /// The schemas of which a value has to fit one; `null` is left out, for it counts as unset.
    pub(super) fn alternatives(self) -> Vec<Self> {
        let mut found = Vec::new();
        self.collect(&mut found, 0);
        found
    }

    /// The schema of a key, where keys are fixed (by any spelling of case) or free.
    pub(super) fn child(self, key: &str) -> Option<Child<'a>> {
        let alternatives = self.alternatives();
        let fixed = alternatives.iter().find_map(|node| {
            let properties = node.at.get("properties")?.as_object()?;
            let exact = properties.get_key_value(key);
            exact.or_else(|| properties.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)))
        });
        if let Some((name, at)) = fixed {
            let node = Self { at, ..self };
            return Some(Child { name, node });
        }
        let free = alternatives
            .iter()
            .filter_map(|node| node.at.get("additionalProperties"))
            .find(|schema| schema.is_object() || schema.as_bool() == Some(true))?;
        let node = Self { at: free, ..self };
        Some(Child { name: "", node })
    }

    /// The schema at the end of a path, spelled exactly.
    pub(super) fn descend(self, path: &[String]) -> Option<Self> {
        path.iter()
            .try_fold(self, |node, key| node.child(key).map(|child| child.node))
    }

    pub(super) fn keys(self) -> Vec<&'a str> {
        let properties = |node: Self| node.at.get("properties").and_then(Json::as_object);
        let alternatives = self.alternatives();
        let maps = alternatives.into_iter().filter_map(properties);
        maps.flat_map(|map| map.keys().map(String::as_str)).collect()
    }

    pub(super) fn required(self) -> Vec<&'a str> {
        let [only] = self.alternatives()[..] else {
            return Vec::new();
        };
        let required = only.at.get("required").and_then(Json::as_array);
        required.into_iter().flatten().filter_map(Json::as_str).collect()
    }

    pub(super) fn items(self) -> Option<Self> {
        let at = self.alternatives().into_iter().find_map(|node| node.at.get("items"))?;
        Some(Self { at, ..self })
    }

    /// Whether the schema names this JSON type.
    pub(super) fn is(self, kind: &str) -> bool {
        self.alternatives().iter().any(|node| node.names(kind))
    }

    /// Whether the value must not be shown.
    pub(super) fn is_secret(self) -> bool {
        let secret = |node: &Self| node.at.get("writeOnly").and_then(Json::as_bool) == Some(true);
        secret(&self) || self.alternatives().iter().any(secret)
    }

    /// Whether a scalar fits one of the alternatives.
    pub(super) fn accepts(self, value: &Json) -> bool {
        let alternatives = self.alternatives();
        alternatives.iter().any(|node| node.accepts_alone(value))
    }

    /// What would fit, as the object of "must be".
    pub(super) fn expected(self) -> String {
        let choices: Vec<String> = self
            .alternatives()
            .into_iter()
            .flat_map(Self::choices)
            .map(|choice| format!("`{choice}`"))
            .collect();
        if !choices.is_empty() {
            return format!("one of {}", choices.join(", "));
        }
        let alternatives = self.alternatives();
        let kinds: Vec<String> = alternatives.iter().map(|node| node.expected_alone()).collect();
        kinds.join(" or ")
    }

    /// What fits, in a word or two; the words of a choice stand elsewhere.
    pub(super) fn kind(self) -> String {
        if self.is("array") {
            return match self.items().map(Self::kind).as_deref() {
                None | Some("table") => "list".into(),
                Some(items) => format!("list of {items}"),
            };
        }
        let mut alternatives = self.alternatives();
        alternatives.truncate(1);
        let only = alternatives.pop();
        let word = only.map(|node| match (node.is_period(), node.choices().is_empty()) {
            (true, _) => "duration".into(),
            (_, false) => "choice".into(),
            _ => node.expected_alone(),
        });
        match word.as_deref() {
            Some("`true` or `false`") => "boolean".into(),
            Some("a table of keys") => "table".into(),
            Some(word) => word
                .trim_start_matches("a ")
                .trim_end_matches(" of at least 0")
                .to_owned(),
            None => "text".into(),
        }
    }

    fn collect(self, found: &mut Vec<Self>, depth: usize) {
        // A schema that refers to itself without end is no shape at all.
        if depth > 16 || self.at.get("type").and_then(Json::as_str) == Some("null") {
            return;
        }
        if let Some(reference) = self.at.get("$ref").and_then(Json::as_str) {
            let target = self.root.pointer(reference.trim_start_matches('#'));
            if let Some(at) = target {
                Self { at, ..self }.collect(found, depth + 1);
            }
            return;
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(list) = self.at.get(key).and_then(Json::as_array) {
                for at in list {
                    Self { at, ..self }.collect(found, depth + 1);
                }
                return;
            }
        }
        found.push(self);
    }

    fn names(&self, kind: &str) -> bool {
        match self.at.get("type") {
            Some(Json::String(name)) => name == kind,
            Some(Json::Array(names)) => names.iter().any(|name| name == kind),
            _ => kind == "string" && !self.choices().is_empty(),
        }
    }

    pub(super) fn choices(self) -> Vec<&'a str> {
        let listed = self.at.get("enum").and_then(Json::as_array);
        let single = self.at.get("const");
        let all = listed.into_iter().flatten().chain(single);
        all.filter_map(Json::as_str).collect()
    }

    fn accepts_alone(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => {
                let choices = self.choices();
                self.names("string")
                    && (choices.is_empty() || choices.contains(&text.as_str()))
                    && (!self.is_period() || text.parse::<super::Period>().is_ok())
            }
            Json::Bool(_) => self.names("boolean"),
            Json::Number(number) => {
                let whole = number.is_i64() || number.is_u64();
                (self.names("number") || (whole && self.names("integer"))) && self.in_range(number)
            }
            _ => false,
        }
    }

    fn in_range(&self, number: &serde_json::Number) -> bool {
        let number = number.as_f64().unwrap_or(f64::NAN);
        let bound = |name| self.at.get(name).and_then(Json::as_f64);
        bound("minimum").is_none_or(|low| number >= low) && bound("maximum").is_none_or(|high| number <= high)
    }

    fn is_period(&self) -> bool {
        self.at.get("format").and_then(Json::as_str) == Some(super::period::FORMAT)
    }

    fn expected_alone(&self) -> String {
        let bound = |name| self.at.get(name).and_then(Json::as_f64);
        let range = match (bound("minimum"), bound("maximum")) {
            (Some(low), Some(high)) => format!(" from {low} to {high}"),
            (Some(low), None) => format!(" of at least {low}"),
            (None, Some(high)) => format!(" of at most {high}"),
            (None, None) => String::new(),
        };
        let plain = [
            ("integer", "a whole number"),
            ("number", "a number"),
            ("boolean", "`true` or `false`"),
            ("array", "a list"),
            ("object", "a table of keys"),
        ];
        if self.is_period() {
            return "a duration such as `30s` or `1h30m`".into();
        }
        let known = plain.into_iter().find(|(kind, _)| self.names(kind));
        known.map_or_else(|| "text".into(), |(_, words)| format!("{words}{range}"))
    }
}

/// A key as the schema knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    /// How the schema spells the key; empty where any key may stand.
    pub(super) name: &'a str,
    pub(super) node: Node<'a>,
}

/// The known word that was probably meant.
pub(super) fn suggestion<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&word, name);
    let likely = known.iter().map(|name| (likeness(name), *name));
    let best = likely.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 >= 0.5).then_some(best.1)
}
