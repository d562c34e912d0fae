//! `list` and `explain`.

use std::{io::Write as _, process::ExitCode};

use conformance::{Options, Source, registry};

use super::SETUP_ERROR;

fn say(line: &str) {
    // A closed pipe, as of `head`, is the reader's wish.
    writeln!(std::io::stdout(), "{line}").ok();
}

pub(super) fn list(profiles: Option<&str>, filter: Option<String>) -> anyhow::Result<ExitCode> {
    let mut options = Options::new(Source::Target(String::new())).profiles(profiles.unwrap_or("all,soak"))?;
    options.filter = filter;
    let mut count = 0;
    for behaviour in registry::all() {
        if !options.selects(&behaviour) {
            continue;
        }
        count += 1;
        let profiles: Vec<_> = behaviour.profiles.iter().map(|profile| profile.name()).collect();
        let profiles = if behaviour.is_baseline() {
            "baseline".to_owned()
        } else {
            profiles.join(",")
        };
        let (id, area) = (behaviour.id, behaviour.area.code());
        say(&format!("{id:<8} {area}  {profiles:<11} {}", behaviour.title));
    }
    say(&format!("{count} behaviours"));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn explain(id: &str) -> anyhow::Result<ExitCode> {
    let Some(behaviour) = registry::find(id) else {
        say(&format!("there is no behaviour `{id}`; see bigfleet-conformance list"));
        return Ok(ExitCode::from(SETUP_ERROR));
    };
    let profiles: Vec<_> = behaviour.profiles.iter().map(|profile| profile.name()).collect();
    let profiles = if behaviour.is_baseline() {
        "always, unless --skip-baseline".to_owned()
    } else {
        profiles.join(", ")
    };
    say(&format!(
        "{} ({} {})",
        behaviour.id,
        behaviour.area.code(),
        behaviour.area
    ));
    say(&format!("  what      {}", behaviour.title));
    say(&format!("  why       {}", behaviour.why));
    say(&format!("  how       {}", behaviour.how));
    say(&format!("  profiles  {profiles}"));
    if let Some(needed) = behaviour.needs {
        say(&format!("  needs     {needed}"));
    }
    say(&format!("  lane      {}", behaviour.lane));
    Ok(ExitCode::SUCCESS)
}
