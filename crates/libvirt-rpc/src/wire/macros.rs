//! What the generated files are written in.

/// The codec of a struct: the fewest bytes it takes, its fields in order, a limit where there is one.
macro_rules! xdr_struct {
    ($min:expr, $name:ident { $($field:ident $(: $max:expr)?),* $(,)? }) => {
        impl $crate::wire::xdr::Encode for $name {
            fn encode(&self, out: &mut $crate::wire::xdr::Encoder<'_>) -> Result<(), $crate::wire::Error> {
                $(
                    $(out.limit(stringify!($field), $crate::wire::xdr::Count::count(&self.$field), $max)?;)?
                    $crate::wire::xdr::Encode::encode(&self.$field, out)?;
                )*
                Ok(())
            }
        }

        impl $crate::wire::xdr::Decode for $name {
            const MIN: usize = $min;

            fn decode(from: &mut $crate::wire::xdr::Decoder<'_>) -> Result<Self, $crate::wire::Error> {
                $(
                    $(from.limit(stringify!($field), $max)?;)?
                    let $field = $crate::wire::xdr::Decode::decode(from)?;
                )*
                Ok(Self { $($field),* })
            }
        }

        #[cfg(test)]
        impl $crate::wire::sample::Sample for $name {
            fn sample(source: &mut $crate::wire::sample::Source<'_>) -> Self {
                Self { $($field: $crate::wire::sample::Sample::sample(source)),* }
            }
        }
    };
}

/// The codec of a union: each variant with its discriminant.
macro_rules! xdr_union {
    ($name:ident { $first:ident: $first_tag:expr, $($variant:ident: $tag:expr),* $(,)? }) => {
        impl Default for $name {
            fn default() -> Self {
                Self::$first(Default::default())
            }
        }

        xdr_union!(@codec $name { $first: $first_tag, $($variant: $tag),* });
    };
    (@codec $name:ident { $($variant:ident: $tag:expr),* }) => {
        impl $crate::wire::xdr::Encode for $name {
            fn encode(&self, out: &mut $crate::wire::xdr::Encoder<'_>) -> Result<(), $crate::wire::Error> {
                match self {
                    $(Self::$variant(value) => {
                        out.word($tag);
                        $crate::wire::xdr::Encode::encode(value, out)
                    })*
                }
            }
        }

        impl $crate::wire::xdr::Decode for $name {
            const MIN: usize = 8;

            fn decode(from: &mut $crate::wire::xdr::Decoder<'_>) -> Result<Self, $crate::wire::Error> {
                match <i32 as $crate::wire::xdr::Decode>::decode(from)? {
                    $($tag => $crate::wire::xdr::Decode::decode(from).map(Self::$variant),)*
                    tag => Err($crate::wire::Error::UnknownVariant { union: stringify!($name), tag }),
                }
            }
        }

        #[cfg(test)]
        impl $crate::wire::sample::Sample for $name {
            fn sample(source: &mut $crate::wire::sample::Source<'_>) -> Self {
                let variants = [$(
                    |source: &mut $crate::wire::sample::Source<'_>| {
                        Self::$variant($crate::wire::sample::Sample::sample(source))
                    },
                )*];
                variants[source.below(variants.len())](source)
            }
        }
    };
}

/// An enumeration as a number with names, so that a value of a newer daemon survives.
macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i32);

        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($number);)*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                const NAMES: &[(i32, &str)] = &[$(($number, stringify!($value))),*];
                match NAMES.iter().find(|(number, _)| *number == self.0) {
                    Some((_, name)) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }

        impl From<i32> for $name {
            fn from(number: i32) -> Self {
                Self(number)
            }
        }

        impl From<$name> for i32 {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl $crate::wire::xdr::Encode for $name {
            fn encode(&self, out: &mut $crate::wire::xdr::Encoder<'_>) -> Result<(), $crate::wire::Error> {
                self.0.encode(out)
            }
        }

        impl $crate::wire::xdr::Decode for $name {
            const MIN: usize = 4;

            fn decode(from: &mut $crate::wire::xdr::Decoder<'_>) -> Result<Self, $crate::wire::Error> {
                i32::decode(from).map(Self)
            }
        }

        #[cfg(test)]
        impl $crate::wire::sample::Sample for $name {
            fn sample(source: &mut $crate::wire::sample::Source<'_>) -> Self {
                Self($crate::wire::sample::Sample::sample(source))
            }
        }
    };
}

/// Bits with names; unknown bits survive.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$value_doc])* pub const $value: Self = Self($number);)*

            /// No bit.
            #[must_use]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The number that travels.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// Whether all bits of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl From<$name> for u32 {
            fn from(flags: $name) -> Self {
                flags.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                const NAMES: &[(u32, &str)] = &[$(($number, stringify!($value))),*];
                $crate::wire::macros::debug_flags(f, self.0, NAMES)
            }
        }
    };
}

/// `A | B | 0x40`.
pub(crate) fn debug_flags(f: &mut std::fmt::Formatter<'_>, bits: u32, names: &[(u32, &str)]) -> std::fmt::Result {
    let mut rest = bits;
    let mut between = "";
    for (bit, name) in names {
        if *bit != 0 && rest & bit == *bit {
            write!(f, "{between}{name}")?;
            rest &= !bit;
            between = " | ";
        }
    }
    if rest != 0 || bits == 0 {
        write!(f, "{between}{rest:#x}")?;
    }
    Ok(())
}

/// `Debug` of a struct some fields of which are secret.
macro_rules! redacted_debug {
    ($name:ident, [$($open:ident),*], [$($secret:ident),*]) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($open), &self.$open))*
                    $(.field(stringify!($secret), &"<secret>"))*
                    .finish()
            }
        }
    };
}

/// The enumeration of all events, with one variant for those this library does not know.
macro_rules! event_enum {
    ($($(#[$doc:meta])* $variant:ident($ty:ident),)*) => {
        /// An event as it was sent.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[$doc])* $variant($ty),)*
            /// An event this library does not know.
            Unknown {
                /// Its program.
                program: $crate::wire::procedure::Program,
                /// Its number there.
                number: i32,
                /// Its content.
                payload: Vec<u8>,
            },
        }

        impl Event {
            /// Reads an event.
            ///
            /// # Errors
            /// When the payload is not what its number promises.
            pub fn decode(
                program: $crate::wire::procedure::Program,
                number: i32,
                payload: &[u8],
            ) -> Result<Self, $crate::wire::Error> {
                use $crate::wire::{procedure::EventMessage as _, xdr::Decode as _};
                $(
                    if program == $ty::INFO.program && number == $ty::INFO.number {
                        return $ty::decode(&mut $crate::wire::xdr::Decoder::new(payload)).map(Self::$variant);
                    }
                )*
                Ok(Self::Unknown { program, number, payload: payload.to_vec() })
            }

            /// The subscription it was sent for, when it says so.
            #[must_use]
            pub fn callback_id(&self) -> Option<i32> {
                use $crate::wire::procedure::EventMessage as _;
                match self {
                    $(Self::$variant(message) => message.callback_id(),)*
                    Self::Unknown { .. } => None,
                }
            }
        }
    };
}

pub(crate) use {event_enum, flags, open_enum, redacted_debug, xdr_struct, xdr_union};
