//! Where secrets are kept: the operating system's store of the user, or a sealed file that was asked for.
//!
//! Only the daemon opens a store. Nothing here is ever a fallback for something else: a secret that cannot be had from the
//! store it was put in is not had.
#![forbid(unsafe_code)]

mod keeper;
mod sealed;
mod stores;
mod system;
mod trouble;

pub use keeper::{Keeper, Timing, Urgency};
pub use sealed::{PASSPHRASE_BYTES_MIN, SealedFile};
pub use stores::{Stores, SystemCredential};
pub use system::SystemStore;
pub use trouble::Trouble;

use callgate_core::secret::Secret;

/// Keeps secrets by name. Every call may take long, wait for a person, or never come back: see [`Keeper`].
pub trait SecretStore {
    /// The secret of this name; `None` when there is none.
    fn read(&mut self, name: &str) -> Result<Option<Secret>, Trouble>;

    /// Keeps a secret under this name, in the place of one that is there.
    fn write(&mut self, name: &str, secret: &Secret) -> Result<(), Trouble>;

    /// What is wrong with it, if anything, without asking a person for anything.
    fn check(&mut self) -> Result<(), Trouble>;

    /// Removes the secret of this name. That there is none is no failure.
    fn remove(&mut self, name: &str) -> Result<(), Trouble>;
}
