//! Repetition of measurements that do not agree.

use std::fmt;

/// A disagreement. A pause of the host may cause it, unlike any other fault.
#[derive(Debug)]
pub(super) struct Apart(pub(super) String);

impl std::error::Error for Apart {}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Measures in each of these ways in turn, until the results agree.
pub(super) fn until_it_agrees(
    ways: [u32; 3],
    mut measured: impl FnMut(u32) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [first, others @ ..] = ways;
    let mut result = measured(first);
    for way in others {
        match result {
            Err(why) if why.is::<Apart>() => {
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
    fn tried(apart: usize) -> (Vec<u32>, anyhow::Result<()>) {
        let tried = RefCell::new(Vec::new());
        let result = until_it_agrees([1, 3, 5], |way| {
            tried.borrow_mut().push(way);
            if tried.borrow().len() > apart { Ok(()) } else { Err(Apart(format!("{way} differs")).into()) }
        });
        (tried.into_inner(), result)
    }

    #[test]
    fn a_disagreement_is_measured_again() {
        assert_eq!((tried(0).0, tried(1).0, tried(2).0), (vec![1], vec![1, 3], vec![1, 3, 5]));
        assert!(tried(2).1.is_ok());
        assert_eq!(tried(3).1.unwrap_err().to_string(), "5 differs");
    }

    #[test]
    fn any_other_fault_is_one_at_once() {
        let tried = RefCell::new(0);
        let result = until_it_agrees([1, 1, 1], |_| {
            *tried.borrow_mut() += 1;
            bail!("no server")
        });
        assert_eq!((tried.into_inner(), result.unwrap_err().to_string()), (1, "no server".to_owned()));
    }
}
