//! List cursors (contract §9): which start of the provider a position belongs to, and the position.
//!
//! Every change of a record gets the next revision. A cursor is opaque to callers; one that is damaged, foreign, of a
//! start that the state file does not know (a restored backup), or beyond what that start reached, reads as no cursor
//! at all, which makes the caller get the full list: never an error, never a delta that hides something.

use bytes::{BufMut as _, Bytes};

const FORMAT: u8 = 1;
const SINCE: u8 = 1;
const WALK: u8 = 2;
const REST: u8 = 3;

/// What a cursor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Everything up to this revision is known.
    Since(u64),
    /// In the middle of a page-by-page answer to that.
    Rest(Rest),
    /// In the middle of a page-by-page walk over the whole set.
    Walk(Walk),
}

/// What is left of a delta that did not fit a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The revision that the caller knew everything up to: what it missed is told by that.
    pub from: u64,
    /// The revision that everything was told up to since.
    pub told: u64,
}

/// A walk in circles over the machines by the order they were added in, which no change of a machine disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The machine it began with.
    pub start: u64,
    /// The machine the next page begins with.
    pub next: u64,
    /// The head when it began: what changed during the walk is found behind it.
    pub head: u64,
}

/// One start of the provider on this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Random, so that a start after a restored backup is told from the one it replaces.
    pub tag: u64,
    /// The head when it began.
    pub base: u64,
}

/// The starts of the provider on this state, oldest first; the last one is now.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Boot>);

/// How many starts are remembered. A cursor of an older one gets the full list.
pub const REMEMBERED_BOOTS: usize = 256;

impl History {
    /// The starts that the store remembers.
    #[must_use]
    pub fn new(boots: Vec<Boot>) -> Self {
        Self(boots)
    }

    /// A new start at this head, to be stored.
    pub fn begin(&mut self, head: u64) -> Boot {
        let boot = Boot {
            tag: fresh_tag(),
            base: head,
        };
        self.0.push(boot);
        if self.0.len() > REMEMBERED_BOOTS {
            self.0.remove(0);
        }
        boot
    }

    /// The bytes a caller gets for a cursor.
    #[must_use]
    pub fn encode(&self, cursor: Cursor) -> Bytes {
        let tag = self.0.last().map_or(0, |boot| boot.tag);
        let mut out = Vec::with_capacity(42);
        out.put_u8(FORMAT);
        match cursor {
            Cursor::Since(position) => {
                out.put_u8(SINCE);
                out.put_u64(tag);
                out.put_u64(position);
            }
            Cursor::Rest(rest) => {
                out.put_u8(REST);
                out.put_u64(tag);
                out.put_u64(rest.from);
                out.put_u64(rest.told);
            }
            Cursor::Walk(walk) => {
                out.put_u8(WALK);
                out.put_u64(tag);
                out.put_u64(walk.start);
                out.put_u64(walk.next);
                out.put_u64(walk.head);
            }
        }
        out.put_u64(checksum(&out));
        out.into()
    }

    /// What a caller's bytes mean here, if anything. `head` is the newest revision there is.
    #[must_use]
    pub fn decode(&self, bytes: &[u8], head: u64) -> Option<Cursor> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if u64::from_be_bytes(*sum) != checksum(body) {
            return None;
        }
        let ([format, kind], numbers) = body.split_first_chunk::<2>()?;
        let (numbers, rest) = numbers.as_chunks::<8>();
        if *format != FORMAT || !rest.is_empty() {
            return None;
        }
        let number = |at: usize| numbers.get(at).copied().map(u64::from_be_bytes);
        let cursor = match (*kind, numbers.len()) {
            (SINCE, 2) => Cursor::Since(number(1)?),
            (REST, 3) => Cursor::Rest(Rest {
                from: number(1)?,
                told: number(2)?,
            }),
            (WALK, 4) => Cursor::Walk(Walk {
                start: number(1)?,
                next: number(2)?,
                head: number(3)?,
            }),
            _ => return None,
        };
        let reached = self.reached(number(0)?, head)?;
        let position = match cursor {
            Cursor::Since(position) => position,
            Cursor::Rest(rest) => rest.told.max(rest.from),
            Cursor::Walk(walk) => walk.head,
        };
        (position <= reached).then_some(cursor)
    }

    /// The newest revision that this start gave out.
    fn reached(&self, tag: u64, head: u64) -> Option<u64> {
        let at = self.0.iter().position(|boot| boot.tag == tag)?;
        Some(self.0.get(at + 1).map_or(head, |next| next.base))
    }
}

fn fresh_tag() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

/// FNV-1a: tells damage, not malice; a forged cursor only changes what its own caller is told.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: u64 = 100;

    fn history() -> History {
        let mut history = History::default();
        history.begin(0);
        history
    }

    #[test]
    fn a_cursor_means_what_it_was_given_for() {
        let history = history();
        for cursor in [
            Cursor::Since(0),
            Cursor::Since(HEAD),
            Cursor::Rest(Rest { from: 3, told: HEAD }),
            Cursor::Walk(Walk {
                start: 7,
                next: 3,
                head: 50,
            }),
        ] {
            assert_eq!(history.decode(&history.encode(cursor), HEAD), Some(cursor));
        }
    }

    #[test]
    fn spoiled_cursors_mean_nothing() {
        let history = history();
        let good = history.encode(Cursor::Since(42)).to_vec();
        let spoiled = [
            vec![],
            b"latest".to_vec(),
            vec![0xde; 4096],
            [&good[..], b"!"].concat(),
            [b"~", &good[..]].concat(),
            [&good[..], b"\x00\xff"].concat(),
            history.encode(Cursor::Since(HEAD + 1)).to_vec(),
            history
                .encode(Cursor::Rest(Rest {
                    from: 3,
                    told: HEAD + 1,
                }))
                .to_vec(),
        ];
        for bytes in spoiled {
            assert_eq!(history.decode(&bytes, HEAD), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_cursor_outlives_a_restart_but_not_a_restored_backup() {
        let mut running = history();
        let mut backup = running.clone();
        let (at_60, at_90) = (running.encode(Cursor::Since(60)), running.encode(Cursor::Since(90)));
        running.begin(90);
        assert_eq!(running.decode(&at_90, 200), Some(Cursor::Since(90)));
        // The backup was taken at 70: what the first start gave out after that means nothing here.
        backup.begin(70);
        assert_eq!(backup.decode(&at_60, 200), Some(Cursor::Since(60)));
        assert_eq!(backup.decode(&at_90, 200), None);
        assert_eq!(backup.decode(&running.encode(Cursor::Since(95)), 200), None);
    }

    #[test]
    fn only_so_many_starts_are_remembered() {
        let mut history = history();
        let first = history.encode(Cursor::Since(0));
        for _ in 0..REMEMBERED_BOOTS {
            history.begin(HEAD);
        }
        assert_eq!(history.decode(&first, HEAD), None);
        assert_eq!(history.0.len(), REMEMBERED_BOOTS);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(history().decode(&bytes, HEAD), None);
        }

        #[test]
        fn one_flipped_bit_is_noticed(position in 0..HEAD, bit in 0..(26 * 8_usize)) {
            let history = history();
            let mut bytes = history.encode(Cursor::Since(position)).to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(history.decode(&bytes, HEAD), None);
        }
    }
}
