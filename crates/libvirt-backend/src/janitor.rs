//! Leftovers: domains and volumes of ours that belong to no machine. Found by every look, removed by the second that
//! finds them, and never anything that is not provably ours (field reports F33, F78, F83).

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use providerkit_backend::{Known, MachineId, State};
use tokio::time::Instant;

use crate::{
    backend::Inner,
    create,
    failure::Failure,
    host::{Host, Seen},
    metric,
    name::{self, DomainName},
    owner::Owner,
    pool::Pool,
    remove::{self, Removal},
};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(60);

/// What is left over on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Leftover {
    /// A domain that an attempt left, by machine and domain name.
    Domain(MachineId, String),
    /// A volume of a machine's, by pool and name.
    Volume(String, String),
    /// A domain in use that the provider's state knows nothing of: kept, because only a person can say what is right.
    Stray(MachineId, String),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(machine, name) => write!(f, "domain {name} of machine {machine}"),
            Self::Volume(pool, name) => write!(f, "volume {name} in pool {pool}"),
            Self::Stray(machine, name) => write!(f, "domain {name} of machine {machine}, in use but not in the state"),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Janitor {
    looked: Option<Instant>,
    /// What the last look found.
    found: HashSet<Leftover>,
}

impl Janitor {
    /// Looks at a host if it is time to, and removes what was there the last time already.
    pub(crate) async fn look(&mut self, inner: &Inner, host: &Host) {
        if self.looked.is_some_and(|looked| looked.elapsed() < PAUSE) || inner.watched.known().is_empty() {
            return;
        }
        self.looked = Some(Instant::now());
        let leftovers = match leftovers(inner, host).await {
            Ok(leftovers) => leftovers,
            Err(failure) => {
                tracing::debug!(host = %host.name(), %failure, "leftovers could not be looked for");
                return;
            }
        };
        report(host, &leftovers);
        for leftover in leftovers.intersection(&self.found) {
            match sweep(inner, host, leftover).await {
                Ok(true) => tracing::warn!(host = %host.name(), %leftover, "a leftover was removed"),
                Ok(false) => {}
                Err(failure) => {
                    let error = providerkit_backend::Error::from(failure).report();
                    tracing::error!(host = %host.name(), %leftover, %error, "a leftover could not be removed");
                }
            }
        }
        self.found = leftovers;
    }
}

fn report(host: &Host, leftovers: &HashSet<Leftover>) {
    let count =
        |is: fn(&Leftover) -> bool| u32::try_from(leftovers.iter().filter(|left| is(left)).count()).unwrap_or(u32::MAX);
    let counts = [
        ("domain", count(|left| matches!(left, Leftover::Domain(..)))),
        ("volume", count(|left| matches!(left, Leftover::Volume(..)))),
        ("stray", count(|left| matches!(left, Leftover::Stray(..)))),
    ];
    for (kind, count) in counts {
        let (zone, host) = (host.zone().to_string(), host.name().to_string());
        metrics::gauge!(metric::ORPHANS, "zone" => zone, "host" => host, "kind" => kind).set(count);
    }
    for stray in leftovers.iter().filter(|left| matches!(left, Leftover::Stray(..))) {
        tracing::error!(
            host = %host.name(), %stray,
            "a domain of ours is in use, but the state file does not know it; was the state file restored from a backup? \
             Undefine the domain, or start with an empty state file to have everything found again"
        );
    }
}

/// What belongs to no machine the engine knows.
pub(crate) async fn leftovers(inner: &Inner, host: &Host) -> Result<HashSet<Leftover>, Failure> {
    let known = inner.watched.known();
    let provider = inner.provider();
    let mut found = HashSet::new();
    let mut live: HashSet<String> = HashSet::new();
    host.with_inventory(|inventory| {
        for (seen, owner) in inventory.owned(provider) {
            let name = seen.domain.name.to_string_lossy().into_owned();
            let verdict = match verdict(known.get(&owner.machine), seen, owner) {
                Verdict::Left if !inner.watched.is_newer_than(owner.since) => Verdict::Wanted,
                verdict => verdict,
            };
            match verdict {
                Verdict::Wanted => {
                    live.extend(remove::volumes_of(&DomainName::new(provider, &owner.machine), owner));
                }
                Verdict::Left => {
                    found.insert(Leftover::Domain(owner.machine.clone(), name));
                }
                Verdict::Stray => {
                    live.extend(remove::volumes_of(&DomainName::new(provider, &owner.machine), owner));
                    found.insert(Leftover::Stray(owner.machine.clone(), name));
                }
            }
        }
    });
    if let Some(lanes) = host.lanes() {
        let pool = Pool::open(&lanes, &inner.settings.machine.pool).await?;
        let volumes = pool.volumes().await?;
        let volumes = volumes.iter().map(|volume| volume.name.to_string_lossy().into_owned());
        let nobodys: Vec<_> = volumes
            .filter(|volume| name::is_like_ours(volume) && !live.contains(volume))
            .collect();
        if nobodys.is_empty() {
            return Ok(found);
        }
        // By the names of machines, of which there may be many; those that are being made may have no domain yet.
        let at_rest = known.values().filter(|known| {
            known.operation.is_none()
                && known.machine.state != State::Failed
                && *known.machine.profile.zone == **host.zone()
        });
        let names: HashMap<String, DomainName> = at_rest
            .map(|known| DomainName::new(provider, &known.machine.id))
            .map(|name| (name.to_string(), name))
            .collect();
        for volume in nobodys {
            let domain = volume.rsplit_once('-').and_then(|(head, tail)| {
                // A seed's name has one dash more.
                let head = if tail == "seed.iso" {
                    head.rsplit_once('-')?.0
                } else {
                    head
                };
                names.get(head)
            });
            if domain.is_some_and(|domain| name::is_volume_of(domain, &volume)) {
                found.insert(Leftover::Volume(inner.settings.machine.pool.clone(), volume));
            }
        }
    }
    Ok(found)
}

enum Verdict {
    Wanted,
    /// An attempt left it; nobody uses it.
    Left,
    /// Somebody uses it.
    Stray,
}

fn verdict(known: Option<&Known>, seen: &Seen, owner: &Owner) -> Verdict {
    if let Some(known) = known {
        let uuid = known.machine.host.as_ref().and_then(create::domain_of);
        let is_host = uuid.is_some_and(|uuid| *uuid.as_bytes() == seen.domain.uuid.0);
        // An operation under way, or one that failed, takes care of what it made.
        if is_host || known.operation.is_some() || known.machine.state == State::Failed {
            return Verdict::Wanted;
        }
    }
    match (&owner.binding, owner.ready) {
        (Some(_), _) => Verdict::Stray,
        // A machine that was made for use and that no state knows: it is taken in by the next look, or a stray.
        (None, true) if known.is_none() => Verdict::Stray,
        _ => Verdict::Left,
    }
}

/// Removes a leftover; whether there was anything to do.
async fn sweep(inner: &Inner, host: &Host, leftover: &Leftover) -> Result<bool, Failure> {
    let Some(lanes) = host.lanes() else { return Ok(false) };
    match leftover {
        Leftover::Stray(..) => Ok(false),
        Leftover::Domain(machine, _) => {
            let Some(_turn) = inner.watched.try_turn(machine) else {
                return Ok(false);
            };
            let removal = Removal {
                provider: inner.provider(),
                machine,
                pool: &inner.settings.machine.pool,
                operation: None,
                grace: Duration::ZERO,
            };
            removal.run(&lanes, host).await.map(|()| true)
        }
        Leftover::Volume(pool, name) => {
            let owner = inner.watched.known();
            let provider = inner.provider();
            let machine = owner
                .keys()
                .find(|machine| name::is_volume_of(&DomainName::new(provider, machine), name));
            let Some(_turn) = machine.and_then(|machine| inner.watched.try_turn(machine)) else {
                return Ok(false);
            };
            let pool = Pool::open(&lanes, pool).await?;
            remove::remove_volume(&pool, host, name, None).await.map(|()| true)
        }
    }
}
