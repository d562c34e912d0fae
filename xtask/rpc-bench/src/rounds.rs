//! Rounds of A and B in turn, and what they come to.

use anyhow::Result;

use crate::sample::Sample;

/// A and B, measured in turn.
pub(crate) struct Rounds {
    pub(crate) ours: Vec<Sample>,
    pub(crate) other: Vec<Sample>,
}

impl Rounds {
    /// Measures one after the other, so that what the machine does meanwhile is fair to both.
    pub(crate) fn alternate(
        rounds: u64,
        mut ours: impl FnMut(u64) -> Result<Sample>,
        mut other: impl FnMut(u64) -> Result<Sample>,
    ) -> Result<Self> {
        let mut all = Self {
            ours: Vec::new(),
            other: Vec::new(),
        };
        for round in 0..rounds {
            all.ours.push(ours(round)?);
            all.other.push(other(round)?);
        }
        Ok(all)
    }

    /// A figure of both, and the median of what it was to the other in each round.
    pub(crate) fn compare(&self, of: impl Fn(&Sample) -> f64) -> (Figure, Figure, f64) {
        let each = |samples: &[Sample]| samples.iter().map(&of).collect::<Vec<f64>>();
        let (ours, other) = (each(&self.ours), each(&self.other));
        let ratios = ours.iter().zip(&other).map(|(a, b)| a / b).collect();
        (Figure::of(ours), Figure::of(other), Figure::of(ratios).median)
    }
}

/// The median of some rounds, and how far apart they were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// Half the way from the least to the most, as a part of the median.
    pub(crate) spread: f64,
}

impl Figure {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        // Of an even number the two in the middle.
        let median = (at(last / 2) + at(last.div_ceil(2))) / 2.0;
        Self {
            median,
            spread: (at(last) - at(0)) / 2.0 / median,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(count: u64) -> Sample {
        Sample {
            count,
            wall: Duration::from_secs(1),
            cpu: Duration::ZERO,
            note: String::new(),
        }
    }

    #[test]
    fn a_figure_is_the_median_with_its_spread() {
        let figure = Figure::of(vec![300.0, 100.0, 200.0]);
        assert_eq!((figure.median, figure.spread), (200.0, 0.5));
        assert_eq!(Figure::of(vec![1.0, 3.0]).median, 2.0);
    }

    #[test]
    fn rounds_are_taken_in_turn_and_compared_in_pairs() {
        let order = std::cell::RefCell::new(String::new());
        let take = |name: char, count: u64| {
            order.borrow_mut().push(name);
            Ok(sample(count))
        };
        // The machine slows down to a tenth; the relation of the two does not change.
        let counts = [1000, 100, 100];
        let rounds = Rounds::alternate(
            3,
            |round| take('a', counts[round as usize]),
            |round| take('b', counts[round as usize] * 2),
        );
        let (ours, other, ratio) = rounds.unwrap().compare(Sample::per_second);
        assert_eq!(order.into_inner(), "ababab");
        assert_eq!((ours.median, other.median, ratio), (100.0, 200.0, 0.5));
    }
}
