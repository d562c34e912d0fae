//! What must hold between libvirt releases.

use std::{collections::BTreeMap, env};

use super::{generate, model::Model, sources};

/// Two at least, oldest first.
fn models() -> Option<Vec<Model>> {
    let trees = match sources::there() {
        Ok(trees) => trees,
        Err(missing) => {
            assert!(env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED libvirt's sources: {missing}");
            return None;
        }
    };
    assert!(trees.len() > 1, "one tree is nothing to compare: {trees:?}");
    Some(trees.iter().map(|tree| Model::read(tree).unwrap()).collect())
}

/// Every struct, constant and enumeration value as `name -> content`.
fn facts(model: &Model) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for file in model.programs.values() {
        for item in &file.structs {
            out.insert(format!("struct {}", item.name), format!("{:?}", item.fields));
        }
        for item in &file.unions {
            out.insert(format!("union {}", item.name), format!("{:?}", item.arms));
        }
        for item in &file.typedefs {
            out.insert(format!("typedef {}", item.name), format!("{item:?}"));
        }
        for variant in file.enums.iter().flat_map(|e| &e.variants) {
            out.insert(variant.name.clone(), variant.value.to_string());
        }
    }
    for (name, value) in model.enums.values().flatten().flat_map(|e| &e.values) {
        out.insert(name.clone(), value.to_string());
    }
    out
}

#[test]
fn a_newer_libvirt_only_adds() {
    let Some(models) = models() else { return };
    for pair in models.windows(2) {
        let (old, new) = (facts(&pair[0]), facts(&pair[1]));
        let changed: Vec<_> = old.iter().filter(|(name, fact)| new.get(*name) != Some(fact)).collect();
        assert!(
            changed.is_empty(),
            "{} -> {}: {changed:#?}",
            pair[0].version,
            pair[1].version
        );
        assert!(new.len() > old.len());
    }
}

#[test]
fn limits_never_shrink() {
    let Some(models) = models() else { return };
    for pair in models.windows(2) {
        for (program, file) in &pair[0].programs {
            for constant in &file.constants {
                let newer = pair[1]
                    .file(program)
                    .unwrap()
                    .constants
                    .iter()
                    .find(|c| c.name == constant.name);
                let newer = pair[1].number(&newer.unwrap().value).unwrap();
                assert!(newer >= pair[0].number(&constant.value).unwrap(), "{}", constant.name);
            }
        }
    }
}

#[test]
fn the_committed_files_are_what_the_newest_source_gives() {
    let Some(models) = models() else { return };
    let newest = models.last().unwrap();
    for (name, text) in generate::files(newest).unwrap() {
        let path = crate::workspace::root().join(super::OUT).join(&name);
        assert!(
            std::fs::read_to_string(&path).unwrap() == text,
            "{name} differs from libvirt {}",
            newest.version
        );
    }
}

#[test]
fn all_programs_are_whole() {
    let Some(models) = models() else { return };
    let count = |program: &str| models.last().unwrap().procedures(program).unwrap().len();
    assert!(count("remote") >= 453);
    assert_eq!(
        (count("qemu"), count("lxc"), count("admin"), count("keepalive")),
        (7, 1, 20, 2)
    );
}
