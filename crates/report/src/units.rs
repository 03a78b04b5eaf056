//! Sizes for people.

/// Uses the largest unit that divides the size: 8192 is `8 KiB`.
pub fn show_size(bytes: u64) -> String {
    let (shift, unit) = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift))
        .unwrap_or((0, "B"));
    format!("{} {unit}", bytes >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_prints_in_largest_dividing_unit() {
        assert_eq!([0, 1000, 8192, 3 << 20].map(show_size), ["0 B", "1000 B", "8 KiB", "3 MiB"]);
    }
}
