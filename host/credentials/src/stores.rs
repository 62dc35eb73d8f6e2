//! The stores of one daemon: which one a secret is in, and which one a new secret goes to.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callgate_core::secret::Secret;
use callgate_core::server::StoreKind;

use crate::{Keeper, SealedFile, SecretStore, SystemStore, Timing, Trouble, Urgency};

/// A file with the sealed file's key, as systemd gives it: `$CREDENTIALS_DIRECTORY/callgate-key`.
pub type SystemCredential = Option<PathBuf>;

/// The longest key that is read of a file, bytes.
const KEY_BYTES_MAX: usize = 64 * 1024;

/// The system's store and the sealed file.
pub struct Stores {
    system: Keeper,
    sealed: Mutex<SealedFile>,
    credential: SystemCredential,
}

impl Stores {
    /// The stores of a home, whose sealed file would be at `sealed`. Opens neither.
    pub fn new(sealed: PathBuf, credential: SystemCredential) -> std::io::Result<Self> {
        Self::with(SystemStore::default, Timing::STANDARD, sealed, credential)
    }

    /// The same with another store in the system's place.
    pub fn with<S: SecretStore>(
        system: impl FnOnce() -> S + Send + 'static,
        timing: Timing,
        sealed: PathBuf,
        credential: SystemCredential,
    ) -> std::io::Result<Self> {
        let system = Keeper::start(system, timing)?;
        Ok(Self { system, sealed: Mutex::new(SealedFile::at(sealed)), credential })
    }

    /// Where a new secret goes: the sealed file once somebody has made one, else the system's store. One is never tried because
    /// the other failed.
    pub fn in_use(&self) -> StoreKind {
        if self.sealed().is_there() { StoreKind::SealedFile } else { StoreKind::System }
    }

    /// The secret of this name in that store; `None` when there is none.
    pub fn read(&self, store: StoreKind, name: &str, urgency: Urgency) -> Result<Option<Secret>, Trouble> {
        match store {
            StoreKind::System => self.system.read(name, urgency),
            StoreKind::SealedFile => self.opened()?.read(name),
        }
    }

    /// Keeps a secret in that store.
    pub fn write(&self, store: StoreKind, name: &str, secret: &Secret) -> Result<(), Trouble> {
        match store {
            StoreKind::System => self.system.write(name, secret),
            StoreKind::SealedFile => self.opened()?.write(name, secret),
        }
    }

    /// Removes a secret from that store.
    pub fn remove(&self, store: StoreKind, name: &str) -> Result<(), Trouble> {
        match store {
            StoreKind::System => self.system.remove(name),
            StoreKind::SealedFile => self.sealed().remove(name),
        }
    }

    /// What is wrong with a store, if anything.
    pub fn check(&self, store: StoreKind) -> Result<(), Trouble> {
        match store {
            StoreKind::System => self.system.check(),
            StoreKind::SealedFile => self.opened()?.check(),
        }
    }

    /// Makes a sealed file under a passphrase or, without one, under the key that systemd gives.
    pub fn create_sealed(&self, passphrase: Option<&Secret>) -> Result<(), Trouble> {
        match passphrase {
            Some(passphrase) => self.sealed().create(passphrase),
            None => self.sealed().create(&self.given_key()?.ok_or(Trouble::NoGivenKey)?),
        }
    }

    /// Opens the sealed file with its passphrase.
    pub fn unlock(&self, passphrase: &Secret) -> Result<(), Trouble> {
        self.sealed().unlock(passphrase)
    }

    /// The sealed file, opened with the given key if it is not open and there is one.
    fn opened(&self) -> Result<MutexGuard<'_, SealedFile>, Trouble> {
        let mut sealed = self.sealed();
        if !sealed.is_open()
            && sealed.is_there()
            && let Some(key) = self.given_key()?
        {
            sealed.unlock(&key)?;
        }
        Ok(sealed)
    }

    fn given_key(&self) -> Result<Option<Secret>, Trouble> {
        let Some(path) = self.credential.as_ref().filter(|path| path.exists()) else { return Ok(None) };
        let key = std::fs::read(path).map(Secret::new);
        let key = key.map_err(|error| Trouble::File(format!("its key {}: {error}", path.display())))?;
        if key.expose().len() > KEY_BYTES_MAX {
            return Err(Trouble::File(format!("its key {} is longer than {KEY_BYTES_MAX} bytes", path.display())));
        }
        Ok(Some(key))
    }

    fn sealed(&self) -> MutexGuard<'_, SealedFile> {
        // Its state is a path and a key; both are whole at every moment.
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system without a store.
    struct Nothing;

    impl SecretStore for Nothing {
        fn read(&mut self, _: &str) -> Result<Option<Secret>, Trouble> {
            Err(Trouble::NoBus)
        }

        fn write(&mut self, _: &str, _: &Secret) -> Result<(), Trouble> {
            Err(Trouble::NoBus)
        }

        fn check(&mut self) -> Result<(), Trouble> {
            Err(Trouble::NoBus)
        }

        fn remove(&mut self, _: &str) -> Result<(), Trouble> {
            Err(Trouble::NoBus)
        }
    }

    fn stores(folder: &std::path::Path) -> Stores {
        let credential = Some(folder.join("callgate-key"));
        Stores::with(|| Nothing, Timing::STANDARD, folder.join("sealed"), credential).unwrap()
    }

    #[test]
    fn without_a_store_nothing_is_kept_until_a_sealed_file_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let stores = stores(folder.path());
        assert_eq!(stores.in_use(), StoreKind::System);
        let secret = Secret::copied(b"x");
        assert_eq!(stores.write(stores.in_use(), "a", &secret), Err(Trouble::NoBus));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a failed store left a file");
        assert!(stores.create_sealed(None) == Err(Trouble::NoGivenKey));
        stores.create_sealed(Some(&Secret::copied(b"correct horse"))).unwrap();
        assert_eq!(stores.in_use(), StoreKind::SealedFile);
        stores.write(stores.in_use(), "a", &secret).unwrap();
        assert_eq!(stores.read(StoreKind::SealedFile, "a", Urgency::Start).unwrap().unwrap().expose(), b"x");
    }

    #[test]
    fn a_given_key_opens_the_file_without_a_person() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("callgate-key"), [7; 32]).unwrap();
        let first = stores(folder.path());
        first.create_sealed(None).unwrap();
        first.write(StoreKind::SealedFile, "a", &Secret::copied(b"x")).unwrap();
        let next = stores(folder.path());
        assert_eq!(next.read(StoreKind::SealedFile, "a", Urgency::Start).unwrap().unwrap().expose(), b"x");

        std::fs::write(folder.path().join("callgate-key"), [8; 32]).unwrap();
        let other = stores(folder.path());
        assert_eq!(other.check(StoreKind::SealedFile), Err(Trouble::WrongKey));
        std::fs::remove_file(folder.path().join("callgate-key")).unwrap();
        assert_eq!(stores(folder.path()).check(StoreKind::SealedFile), Err(Trouble::SealedLocked));
    }
}
