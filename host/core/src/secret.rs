//! A secret: bytes that are never shown, never written anywhere by accident, and wiped when they are not needed any more.

use zeroize::Zeroizing;

/// The longest secret, bytes. What the kernel takes for one variable of an environment is a little more than twice that.
pub const SECRET_BYTES_MAX: usize = 60 * 1024;

/// Secret bytes. There is no `Debug`, `Display`, `Serialize` or `Clone`: whoever needs them says so with [`Secret::expose`].
/// Their memory is wiped when this is dropped; what grows or moves out of it is not.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Copies bytes whose owner sees to the original.
    pub fn copied(bytes: &[u8]) -> Self {
        Self::new(bytes.to_vec())
    }

    /// The bytes themselves. Whatever is made of them is a secret as well.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes themselves, out of the keeping of this type.
    pub fn into_exposed(mut self) -> Zeroizing<Vec<u8>> {
        std::mem::take(&mut self.0)
    }
}

/// Without bytes.
impl Default for Secret {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

/// A secret that cannot be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSecret {
    /// There is nothing in it.
    #[error("the value is empty")]
    Empty,
    /// It is too long.
    #[error("the value is longer than {SECRET_BYTES_MAX} bytes")]
    TooLong,
    /// It has a byte that no variable can have.
    #[error("the value holds a NUL byte, which no environment variable can hold")]
    Nul,
}

impl Secret {
    /// Whether it can be the value of an environment variable.
    pub fn check(&self) -> Result<(), BadSecret> {
        match self.expose() {
            [] => Err(BadSecret::Empty),
            bytes if bytes.len() > SECRET_BYTES_MAX => Err(BadSecret::TooLong),
            bytes if bytes.contains(&0) => Err(BadSecret::Nul),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_what_a_variable_can_hold() {
        let check = |bytes: &[u8]| Secret::copied(bytes).check();
        assert_eq!(check(b"ghp_x"), Ok(()));
        assert_eq!(check(b""), Err(BadSecret::Empty));
        assert_eq!(check(b"a\0b"), Err(BadSecret::Nul));
        assert_eq!(check(&vec![b'x'; SECRET_BYTES_MAX]), Ok(()));
        assert_eq!(check(&vec![b'x'; SECRET_BYTES_MAX + 1]), Err(BadSecret::TooLong));
    }
}
