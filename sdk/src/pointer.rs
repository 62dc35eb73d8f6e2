//! RFC 6901 JSON pointers: how rules, settings errors and warnings say which part of the settings they are about.

use std::fmt;

/// A JSON pointer into the settings document, built from the root down.
///
/// ```
/// use callgate_sdk::Pointer;
///
/// assert_eq!(Pointer::root().to_string(), "");
/// assert_eq!(Pointer::root().key("rules").index(5).key("a/b~c").to_string(), "/rules/5/a~1b~0c");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Pointer(String);

impl Pointer {
    /// The whole document.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// A member of the object pointed at.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        // Room for exactly this, as what is returned to the host is copied again when there is more.
        self.0.reserve_exact(1 + key.len());
        self.0.push('/');
        if !key.contains(['~', '/']) {
            self.0.push_str(key);
            return self;
        }
        for char in key.chars() {
            match char {
                '~' => self.0.push_str("~0"),
                '/' => self.0.push_str("~1"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// An element of the array pointed at, from 0.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        // Not through `fmt`: a plugin builds a pointer on the decision path.
        let digits = index.checked_ilog10().unwrap_or_default() + 1;
        self.0.reserve_exact(1 + digits as usize);
        self.0.push('/');
        for place in (0..digits).rev() {
            let digit = index / 10_usize.pow(place) % 10;
            self.0.push(char::from(b'0' + digit.to_le_bytes()[0]));
        }
        self
    }

    /// The pointer as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_written_in_full() {
        for index in [0, 7, 10, 99, 100, 12345, usize::MAX] {
            assert_eq!(Pointer::root().key("r").index(index).as_str(), format!("/r/{index}"));
        }
    }
}
