//! Repetition of measurements that do not agree.

use std::fmt;

/// A disagreement. A pause of the host may cause it, unlike any other fault.
#[derive(Debug)]
pub(super) struct Disagreement(pub(super) String);

impl std::error::Error for Disagreement {}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Measures in each of `ways` in turn, until the results agree.
pub(super) fn repeat_until_agreement(
    ways: [u32; 3],
    mut measured: impl FnMut(u32) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [first, others @ ..] = ways;
    let mut result = measured(first);
    for way in others {
        match result {
            Err(why) if why.is::<Disagreement>() => {
                eprintln!("{why}; once more");
                result = measured(way);
            }
            done => return done,
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::bail;

    use super::*;

    /// The ways that are tried if the first `apart` disagree, and the result.
    fn attempts(apart: usize) -> (Vec<u32>, anyhow::Result<()>) {
        let tried = RefCell::new(Vec::new());
        let result = repeat_until_agreement([1, 3, 5], |way| {
            tried.borrow_mut().push(way);
            if tried.borrow().len() > apart {
                Ok(())
            } else {
                Err(Disagreement(format!("{way} differs")).into())
            }
        });
        (tried.into_inner(), result)
    }

    #[test]
    fn a_disagreement_is_measured_again() {
        assert_eq!((attempts(0).0, attempts(1).0, attempts(2).0), (vec![1], vec![1, 3], vec![1, 3, 5]));
        assert!(attempts(2).1.is_ok());
        assert_eq!(attempts(3).1.unwrap_err().to_string(), "5 differs");
    }

    #[test]
    fn any_other_fault_fails_immediately() {
        let tried = RefCell::new(0);
        let result = repeat_until_agreement([1, 1, 1], |_| {
            *tried.borrow_mut() += 1;
            bail!("no server")
        });
        assert_eq!((tried.into_inner(), result.unwrap_err().to_string()), (1, "no server".to_owned()));
    }
}
