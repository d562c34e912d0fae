//! Every generated type: what is written can be read, and nothing else can hurt.

use std::fmt::Debug;

use proptest::{collection::vec, prelude::any, test_runner::TestRunner};

use super::{
    generated::every::every_type,
    sample::{Sample, Source},
    xdr::{Decode, Decoder, Encode, Encoder},
};

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut Encoder::new(&mut out)).unwrap();
    out
}

fn round_trip<T: Sample + Encode + Decode + Debug + PartialEq>() {
    let config = proptest::test_runner::Config {
        cases: 24,
        failure_persistence: None,
        ..Default::default()
    };
    let run = TestRunner::new(config).run(&vec(any::<u8>(), 0..400), |bytes| {
        let value = T::sample(&mut Source::new(&bytes));
        let mut wire = encoded(&value);
        let length = wire.len();
        assert_eq!(length % 4, 0);
        assert!(length >= T::MIN, "{length} < {}", T::MIN);
        // Anything shorter is an error, anything after it is left alone.
        for cut in (0..length).step_by(4.max(length / 64 * 4)) {
            assert!(
                T::decode(&mut Decoder::new(&wire[..cut])).is_err(),
                "{cut} of {length} bytes"
            );
        }
        wire.extend([1, 2, 3, 4]);
        let mut from = Decoder::new(&wire);
        assert_eq!(T::decode(&mut from).unwrap(), value);
        assert_eq!(from.rest(), [1, 2, 3, 4]);
        // Random bytes are read or refused, and what is read can be written.
        if let Ok(value) = T::decode(&mut Decoder::new(&bytes)) {
            let mut out = Vec::new();
            let _ = value.encode(&mut Encoder::new(&mut out));
        }
        Ok(())
    });
    run.unwrap();
    // The smallest value takes exactly the bytes that bound allocation.
    assert_eq!(encoded(&T::sample(&mut Source::new(&[]))).len(), T::MIN);
}

macro_rules! tests {
    ($($name:ident = $ty:path;)*) => {$(
        #[test]
        fn $name() {
            round_trip::<$ty>();
        }
    )*};
}

mod every {
    use super::{every_type, round_trip};

    every_type!(tests);
}
