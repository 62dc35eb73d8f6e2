//! The sealed file: every secret sealed by itself, under a key that is never in the file.
//!
//! JSON text. Each record is sealed with XChaCha20-Poly1305 and a random nonce, and bound to the file's id, its own name and its
//! version, so that records cannot be exchanged between files or names. The key is made with Argon2id of a passphrase, or of a key
//! that systemd gives. What the file does not show is that it is an older copy of itself, or that a record is missing.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use callgate_core::secret::Secret;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{SecretStore, Trouble};

/// What the file calls its form, and what every seal is bound to.
const FORMAT: &str = "callgate-sealed/1";
/// The shortest passphrase or key: below it any cost of the derivation is soon paid.
pub const PASSPHRASE_BYTES_MIN: usize = 8;
/// A file that is larger was not written by us: some thousand secrets of ordinary size.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
const FILE_MODE: u32 = 0o600;
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const SALT_BYTES: usize = 16;
/// The record that shows whether a key is the file's; no server has a name like it.
const CHECK: &str = "check";

/// The cost of the derivation, as OWASP's password storage cheat sheet has it: 19 MiB, two passes, one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// The most that a file may ask for, so that a changed file does not exhaust the machine.
const MEMORY_KIB_MAX: u32 = 1024 * 1024;
const PASSES_MAX: u32 = 64;

/// A sealed file, and its key while it is known.
pub struct SealedFile {
    path: PathBuf,
    key: Option<Zeroizing<[u8; KEY_BYTES]>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    /// Random; what records are bound to.
    store: String,
    derivation: Derivation,
    check: Sealed,
    records: BTreeMap<String, Record>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Derivation {
    name: String,
    memory_kib: u32,
    passes: u32,
    salt: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// From 1; one more with every write.
    version: u64,
    sealed: Sealed,
}

/// Nonce and sealed bytes, base64.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    nonce: String,
    bytes: String,
}

impl SealedFile {
    /// The sealed file at `path`, which may not be there.
    pub const fn at(path: PathBuf) -> Self {
        Self { path, key: None }
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Whether its key is known.
    pub const fn is_open(&self) -> bool {
        self.key.is_some()
    }

    /// Makes an empty one under this passphrase or key, and opens it.
    pub fn create(&mut self, passphrase: &Secret) -> Result<(), Trouble> {
        if self.is_there() {
            return Err(Trouble::AlreadyThere);
        }
        if passphrase.expose().len() < PASSPHRASE_BYTES_MIN {
            return Err(Trouble::ShortKey(PASSPHRASE_BYTES_MIN));
        }
        let salt = STANDARD.encode(random::<SALT_BYTES>()?);
        let derivation = Derivation { name: "argon2id".to_owned(), memory_kib: MEMORY_KIB, passes: PASSES, salt };
        let key = derivation.key(passphrase)?;
        let store = STANDARD.encode(random::<SALT_BYTES>()?);
        let check = seal(&key, &bound(&store, CHECK, 0), b"")?;
        let file = File { format: FORMAT.to_owned(), store, derivation, check, records: BTreeMap::new() };
        self.replace(&file)?;
        self.key = Some(key);
        Ok(())
    }

    /// Opens it. A key that is not the file's is refused, and one that is known stays.
    pub fn unlock(&mut self, passphrase: &Secret) -> Result<(), Trouble> {
        let file = self.load()?;
        let key = file.derivation.key(passphrase)?;
        open(&key, &bound(&file.store, CHECK, 0), &file.check)?.ok_or(Trouble::WrongKey)?;
        self.key = Some(key);
        Ok(())
    }

    fn load(&self) -> Result<File, Trouble> {
        let metadata = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Trouble::Absent),
            Err(error) => return Err(self.unusable(&error)),
        };
        if metadata.len() > FILE_BYTES_MAX {
            return Err(Trouble::Damaged(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(&self.path).map_err(|error| self.unusable(&error))?;
        let file: File = serde_json::from_slice(&text).map_err(|error| Trouble::Damaged(error.to_string()))?;
        if file.format == FORMAT { Ok(file) } else { Err(Trouble::Damaged(format!("its format is {:?}", file.format))) }
    }

    /// Writes the whole file beside the old one, and puts it in its place: whenever that ends, one of the two is there whole.
    fn replace(&self, file: &File) -> Result<(), Trouble> {
        let text = serde_json::to_vec_pretty(file).map_err(|error| Trouble::File(error.to_string()))?;
        let folder = self.path.parent().ok_or_else(|| Trouble::File("it has no folder".to_owned()))?;
        let write = || {
            let mut new =
                tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(FILE_MODE)).tempfile_in(folder)?;
            new.write_all(&text)?;
            new.as_file().sync_all()?;
            new.persist(&self.path).map_err(|error| error.error)?;
            std::fs::File::open(folder)?.sync_all()
        };
        write().map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &io::Error) -> Trouble {
        Trouble::File(format!("{}: {error}", self.path.display()))
    }

    fn opened(&self) -> Result<(File, &Zeroizing<[u8; KEY_BYTES]>), Trouble> {
        let file = self.load()?;
        let key = self.key.as_ref().ok_or(Trouble::SealedLocked)?;
        open(key, &bound(&file.store, CHECK, 0), &file.check)?.ok_or(Trouble::WrongKey)?;
        Ok((file, key))
    }
}

impl SecretStore for SealedFile {
    fn read(&mut self, name: &str) -> Result<Option<Secret>, Trouble> {
        let (file, key) = self.opened()?;
        let Some(record) = file.records.get(name) else { return Ok(None) };
        let secret = open(key, &bound(&file.store, name, record.version), &record.sealed)?;
        secret.map(Some).ok_or_else(|| Trouble::Damaged(format!("the record {name} is not what was sealed")))
    }

    fn write(&mut self, name: &str, secret: &Secret) -> Result<(), Trouble> {
        let (mut file, key) = self.opened()?;
        let version = file.records.get(name).map_or(0, |record| record.version).saturating_add(1);
        let sealed = seal(key, &bound(&file.store, name, version), secret.expose())?;
        file.records.insert(name.to_owned(), Record { version, sealed });
        self.replace(&file)
    }

    fn check(&mut self) -> Result<(), Trouble> {
        self.opened().map(drop)
    }

    fn remove(&mut self, name: &str) -> Result<(), Trouble> {
        // Without the key as well: what is gone needs none.
        let mut file = self.load()?;
        if file.records.remove(name).is_none() {
            return Ok(());
        }
        self.replace(&file)
    }
}

impl Derivation {
    fn key(&self, passphrase: &Secret) -> Result<Zeroizing<[u8; KEY_BYTES]>, Trouble> {
        let Self { name, memory_kib, passes, salt } = self;
        let damaged = |why: &str| Trouble::Damaged(format!("the derivation of its key: {why}"));
        if name != "argon2id" || *memory_kib > MEMORY_KIB_MAX || *passes > PASSES_MAX {
            return Err(damaged("it is not one that callgate writes"));
        }
        let salt = STANDARD.decode(salt).map_err(|error| damaged(&error.to_string()))?;
        let params =
            Params::new(*memory_kib, *passes, 1, Some(KEY_BYTES)).map_err(|error| damaged(&error.to_string()))?;
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.expose(), &salt, key.as_mut_slice())
            .map_err(|error| damaged(&error.to_string()))?;
        Ok(key)
    }
}

/// What a seal is bound to: each part with its length in front, so that no two runs of parts are the same bytes.
fn bound(store: &str, name: &str, version: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [FORMAT.as_bytes(), store.as_bytes(), name.as_bytes(), &version.to_be_bytes()] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

fn seal(key: &[u8; KEY_BYTES], bound: &[u8], secret: &[u8]) -> Result<Sealed, Trouble> {
    let nonce = random::<NONCE_BYTES>()?;
    let sealed = XChaCha20Poly1305::new(&Key::from(*key))
        .encrypt(&XNonce::from(nonce), Payload { msg: secret, aad: bound })
        .map_err(|_| Trouble::File("the secret is too long to be sealed".to_owned()))?;
    Ok(Sealed { nonce: STANDARD.encode(nonce), bytes: STANDARD.encode(sealed) })
}

/// What was sealed; `None` when it was not sealed so, with this key.
fn open(key: &[u8; KEY_BYTES], bound: &[u8], sealed: &Sealed) -> Result<Option<Secret>, Trouble> {
    let decoded = |text: &str| STANDARD.decode(text).map_err(|error| Trouble::Damaged(error.to_string()));
    let nonce: [u8; NONCE_BYTES] = decoded(&sealed.nonce)?
        .try_into()
        .map_err(|_| Trouble::Damaged(format!("a nonce is not {NONCE_BYTES} bytes long")))?;
    let bytes = decoded(&sealed.bytes)?;
    let opened =
        XChaCha20Poly1305::new(&Key::from(*key)).decrypt(&XNonce::from(nonce), Payload { msg: &bytes, aad: bound });
    Ok(opened.ok().map(Secret::new))
}

fn random<const N: usize>() -> Result<[u8; N], Trouble> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Trouble::File(format!("no randomness to be had: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("credentials.sealed")
        }

        fn file(&self) -> SealedFile {
            SealedFile::at(self.path())
        }

        /// One with two secrets, open.
        fn filled(&self) -> SealedFile {
            let mut file = self.file();
            file.create(&passphrase()).unwrap();
            file.write("server/a/TOKEN", &Secret::copied(b"hunter2-canary")).unwrap();
            file.write("server/b/TOKEN", &Secret::copied(b"other")).unwrap();
            file
        }

        fn change(&self, change: impl FnOnce(&mut Value)) {
            let mut json = serde_json::from_slice(&fs::read(self.path()).unwrap()).unwrap();
            change(&mut json);
            fs::write(self.path(), serde_json::to_vec(&json).unwrap()).unwrap();
        }
    }

    fn passphrase() -> Secret {
        Secret::copied(b"correct horse")
    }

    fn read(file: &mut SealedFile, name: &str) -> Result<Option<Vec<u8>>, Trouble> {
        file.read(name).map(|secret| secret.map(|secret| secret.expose().to_vec()))
    }

    #[test]
    fn another_process_with_the_passphrase_reads_what_was_sealed() {
        let place = Place::new();
        drop(place.filled());
        let mut file = place.file();
        assert_eq!(read(&mut file, "server/a/TOKEN"), Err(Trouble::SealedLocked));
        assert_eq!(file.unlock(&Secret::copied(b"wrong horse")), Err(Trouble::WrongKey));
        assert_eq!(read(&mut file, "server/a/TOKEN"), Err(Trouble::SealedLocked));
        file.unlock(&passphrase()).unwrap();
        assert_eq!(read(&mut file, "server/a/TOKEN").unwrap().unwrap(), b"hunter2-canary");
        assert_eq!(read(&mut file, "server/c/TOKEN"), Ok(None));
        file.remove("server/a/TOKEN").unwrap();
        file.remove("server/a/TOKEN").unwrap();
        assert_eq!(read(&mut file, "server/a/TOKEN"), Ok(None));
    }

    #[test]
    fn nothing_of_a_secret_is_in_the_file_and_nobody_else_may_read_it() {
        let place = Place::new();
        drop(place.filled());
        let text = fs::read_to_string(place.path()).unwrap();
        for hidden in ["hunter2", &STANDARD.encode("hunter2-canary"), "correct horse"] {
            assert!(!text.contains(hidden), "{hidden}");
        }
        assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, FILE_MODE);
        assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 1, "something is left behind");
    }

    #[test]
    fn a_changed_record_is_not_opened() {
        let a = "server/a/TOKEN";
        let changes: [fn(&mut Value); 4] = [
            |json| json["records"]["server/a/TOKEN"] = json["records"]["server/b/TOKEN"].clone(),
            |json| json["records"]["server/a/TOKEN"]["version"] = 2.into(),
            |json| {
                let bytes = json["records"]["server/a/TOKEN"]["sealed"]["bytes"].as_str().unwrap();
                let mut bytes = STANDARD.decode(bytes).unwrap();
                bytes[0] ^= 1;
                json["records"]["server/a/TOKEN"]["sealed"]["bytes"] = STANDARD.encode(bytes).into();
            },
            |json| json["records"]["server/a/TOKEN"]["sealed"]["nonce"] = "AAAA".into(),
        ];
        for change in changes {
            let place = Place::new();
            let mut file = place.filled();
            place.change(change);
            assert!(matches!(read(&mut file, a), Err(Trouble::Damaged(_))));
            assert_eq!(read(&mut file, "server/b/TOKEN").unwrap().unwrap(), b"other", "the other one is whole");
        }
    }

    #[test]
    fn a_record_of_another_file_is_not_opened_even_under_the_same_passphrase() {
        let (place, other) = (Place::new(), Place::new());
        let mut file = place.filled();
        drop(other.filled());
        let foreign: Value = serde_json::from_slice(&fs::read(other.path()).unwrap()).unwrap();
        place.change(|json| json["records"] = foreign["records"].clone());
        assert!(matches!(read(&mut file, "server/a/TOKEN"), Err(Trouble::Damaged(_))));
        // Nor does a whole other file pass for this one.
        fs::copy(other.path(), place.path()).unwrap();
        assert_eq!(read(&mut file, "server/a/TOKEN"), Err(Trouble::WrongKey));
    }

    #[test]
    fn an_older_version_of_a_record_does_not_come_back() {
        let place = Place::new();
        let mut file = place.filled();
        let before: Value = serde_json::from_slice(&fs::read(place.path()).unwrap()).unwrap();
        file.write("server/a/TOKEN", &Secret::copied(b"newer")).unwrap();
        place.change(|json| {
            json["records"]["server/a/TOKEN"]["sealed"] = before["records"]["server/a/TOKEN"]["sealed"].clone();
        });
        assert!(matches!(read(&mut file, "server/a/TOKEN"), Err(Trouble::Damaged(_))));
    }

    #[test]
    fn a_write_that_was_cut_short_leaves_the_file_as_it_was() {
        let place = Place::new();
        let mut file = place.filled();
        // What a process that died while writing leaves: a half of the new file, under another name.
        fs::write(place.0.path().join(".tmpXYZ"), b"{\"format\":\"callg").unwrap();
        assert_eq!(read(&mut file, "server/a/TOKEN").unwrap().unwrap(), b"hunter2-canary");
        // And one whose folder takes no file leaves it whole as well.
        let before = fs::read(place.path()).unwrap();
        let moved = place.0.path().join("elsewhere");
        let mut lost = SealedFile { path: moved.join("credentials.sealed"), key: file.key.clone() };
        fs::create_dir(&moved).unwrap();
        fs::copy(place.path(), &lost.path).unwrap();
        fs::remove_file(&lost.path).unwrap();
        assert_eq!(lost.write("x", &Secret::copied(b"y")), Err(Trouble::Absent));
        assert_eq!(fs::read(place.path()).unwrap(), before);
    }

    #[test]
    fn what_is_no_sealed_file_is_said_to_be_none() {
        let place = Place::new();
        let mut file = place.file();
        assert_eq!(read(&mut file, "a"), Err(Trouble::Absent));
        assert_eq!(file.create(&Secret::copied(b"short")), Err(Trouble::ShortKey(PASSPHRASE_BYTES_MIN)));
        file.create(&passphrase()).unwrap();
        assert_eq!(file.create(&passphrase()), Err(Trouble::AlreadyThere));
        place.change(|json| json["derivation"]["memory_kib"] = u32::MAX.into());
        assert!(matches!(place.file().unlock(&passphrase()), Err(Trouble::Damaged(_))));
        fs::write(place.path(), "x").unwrap();
        assert!(matches!(read(&mut file, "a"), Err(Trouble::Damaged(_))));
    }
}
