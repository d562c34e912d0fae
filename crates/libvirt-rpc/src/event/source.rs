//! What a daemon was asked to tell: one registration, however many want to hear it.
//!
//! A daemon refuses a second registration of the same on one connection ("event callback already tracked"), and may
//! carry out a registration before the end of the last one that was sent before it. So each source is registered once,
//! and not again before its end was answered.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{Notify, futures::OwnedNotified};

use super::Class;

/// One thing to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct Source {
    pub(crate) class: Class,
    /// The event's number within the class.
    pub(crate) event: i32,
    /// What identifies the one object, or narrows otherwise; nothing for all.
    pub(crate) of: Option<Vec<u8>>,
}

/// How a source stands.
#[derive(Debug)]
enum Standing {
    /// A call that begins or ends it is under way.
    Changing(Arc<Notify>),
    /// The daemon tells it under this id.
    Active { id: i32, subscribers: usize },
}

/// What one who wants to hear a source is to do.
#[derive(Debug)]
pub(crate) enum Join {
    /// Listen to this id.
    Listen(i32),
    /// Register it, and tell how that ended.
    Register,
    /// Ask again then.
    Wait(OwnedNotified),
}

/// All sources of one connection.
#[derive(Debug, Default)]
pub(crate) struct Sources(HashMap<Source, Standing>);

impl Sources {
    pub(crate) fn join(&mut self, source: &Source) -> Join {
        match self.0.get_mut(source) {
            Some(Standing::Active { id, subscribers }) => {
                *subscribers += 1;
                Join::Listen(*id)
            }
            Some(Standing::Changing(done)) => Join::Wait(Arc::clone(done).notified_owned()),
            None => {
                self.0.insert(source.clone(), Standing::Changing(Arc::default()));
                Join::Register
            }
        }
    }

    /// A register call has ended, with an id if it succeeded, which its caller listens to.
    pub(crate) fn registered(&mut self, source: &Source, id: Option<i32>) {
        let before = match id {
            Some(id) => self.0.insert(source.clone(), Standing::Active { id, subscribers: 1 }),
            None => self.0.remove(source),
        };
        wake(before);
    }

    /// One listens no more; true if it was the last, and the daemon is to be told.
    pub(crate) fn leave(&mut self, source: &Source) -> bool {
        let Some(standing) = self.0.get_mut(source) else {
            return false;
        };
        if let Standing::Active { subscribers, .. } = standing {
            *subscribers -= 1;
            if *subscribers == 0 {
                *standing = Standing::Changing(Arc::default());
                return true;
            }
        }
        false
    }

    /// The daemon tells it no more.
    pub(crate) fn left(&mut self, source: &Source) {
        wake(self.0.remove(source));
    }

    /// Nobody tells anything any more.
    pub(crate) fn close(&mut self) {
        for (_, standing) in self.0.drain() {
            wake(Some(standing));
        }
    }
}

fn wake(standing: Option<Standing>) {
    if let Some(Standing::Changing(done)) = standing {
        done.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            class: Class::Domain,
            event: 0,
            of: None,
        }
    }

    #[test]
    fn a_source_is_registered_by_the_first_and_ended_by_the_last() {
        let (mut sources, source) = (Sources::default(), source());
        assert!(matches!(sources.join(&source), Join::Register));
        assert!(matches!(sources.join(&source), Join::Wait(_)));
        sources.registered(&source, Some(7));
        assert!(matches!(sources.join(&source), Join::Listen(7)));
        assert!(!sources.leave(&source));
        assert!(sources.leave(&source));
        assert!(
            matches!(sources.join(&source), Join::Wait(_)),
            "the daemon may still tell it"
        );
        sources.left(&source);
        assert!(matches!(sources.join(&source), Join::Register));
    }

    #[test]
    fn other_objects_are_other_sources() {
        let (mut sources, all) = (Sources::default(), source());
        let one = Source {
            of: Some(vec![1]),
            ..source()
        };
        assert!(matches!(sources.join(&all), Join::Register));
        assert!(matches!(sources.join(&one), Join::Register));
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_when_a_registration_fails_or_everything_ends() {
        let (mut sources, source) = (Sources::default(), source());
        for end in [
            (|sources: &mut Sources, source: &Source| sources.registered(source, None)) as fn(&mut Sources, &Source),
            |sources, _| sources.close(),
        ] {
            assert!(matches!(sources.join(&source), Join::Register));
            let Join::Wait(done) = sources.join(&source) else {
                panic!("there is nothing to wait for");
            };
            end(&mut sources, &source);
            tokio::time::timeout(std::time::Duration::from_secs(5), done)
                .await
                .unwrap();
        }
    }
}
