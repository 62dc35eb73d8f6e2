#![no_main]
//! A journal whose file was changed: it is read and verified without a panic, and what verifies up to the head that was kept is
//! what was written.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use callgate_core::call::Call;
use callgate_core::decide::decide;
use callgate_core::digest::Digest;
use callgate_core::entry::Outcome;
use callgate_core::evaluate::{ChainDefault, Opinions};
use callgate_core::identity::{Caller, Server, SessionId};
use callgate_core::permit::Binding;
use callgate_core::port::{Clock, Evaluator};
use callgate_journal::{Entry, Filter, Journal, Options, PAGE_ENTRIES_MAX, Reader, RecordPolicy, Verification, verify};
use libfuzzer_sys::fuzz_target;

/// A patch: three bytes say where, the fourth how many bytes follow.
const PATCH_HEAD_BYTES: usize = 4;

/// A sound journal.
struct Pristine {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    head: Digest,
    entries: Vec<Entry>,
}

static PRISTINE: LazyLock<Pristine> = LazyLock::new(Pristine::new);

fuzz_target!(|patches: &[u8]| {
    let Pristine { folder, bytes, head, entries } = &*PRISTINE;
    let changed = folder.path().join(format!("{}.db", std::process::id()));
    std::fs::write(&changed, patched(bytes.clone(), patches)).expect("the folder can be written");
    verify(&changed, None, None);
    let verified = verify(&changed, None, Some(*head));
    let read = read(&changed);
    if let Verification::Sound(_) = verified {
        let read = read.expect("what verifies can be read");
        let hashed = |entry: &Entry| (entry.seq, entry.time_ms, entry.kind.clone(), entry.body.clone());
        assert!(read.iter().map(hashed).take(entries.len()).eq(entries.iter().map(hashed)));
    }
});

fn patched(mut bytes: Vec<u8>, mut patches: &[u8]) -> Vec<u8> {
    while let Some((head, rest)) = patches.split_first_chunk::<PATCH_HEAD_BYTES>() {
        let [high, middle, low, count] = *head;
        let place = u32::from_be_bytes([0, high, middle, low]) as usize % bytes.len();
        let count = usize::from(count).min(rest.len()).min(bytes.len() - place);
        bytes[place..place + count].copy_from_slice(&rest[..count]);
        patches = &rest[count..];
    }
    bytes
}

fn read(database: &Path) -> Option<Vec<Entry>> {
    let reader = Reader::open(database, None).ok()?;
    reader.head().ok()?;
    reader.after_newest(3, &Filter::default()).ok()?;
    Some(reader.page(0, &Filter::default(), PAGE_ENTRIES_MAX).ok()?.entries)
}

impl Pristine {
    fn new() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder can be made");
        let database = folder.path().join("journal.db");
        let journal = Journal::open(Options {
            database: database.clone(),
            install_marker: folder.path().join("install"),
            record: RecordPolicy::default(),
            clock: Arc::new(StandingClock),
            build: "fuzz".to_owned(),
        })
        .expect("a journal can be made");
        decide(&Silent, &journal, (1..=8).map(call).collect());
        journal.note_outcome(session(), 2, Outcome::Ok, Some(3));
        journal.close().expect("it can be closed");
        let Verification::Sound(sound) = verify(&database, None, None) else { panic!("it is not sound") };
        let bytes = std::fs::read(&database).expect("it can be read");
        let entries = read(&database).expect("it can be read");
        Self { folder, bytes, head: sound.head.chain, entries }
    }
}

fn session() -> SessionId {
    SessionId::from_random([7; 16])
}

fn call(sequence: u64) -> Call {
    let server = Server { id: String::new(), name: "fs".parse().expect("a name") };
    let arguments = format!(r#"{{"path":"/home/user/{sequence}"}}"#);
    Call {
        binding: Binding { connection: 1, sequence, frame: Digest::of(b"frame") },
        session: session(),
        request_id: sequence.to_string(),
        caller: Arc::new(Caller { agent: None, client: "fuzz".to_owned(), server, attributes: Vec::new() }),
        tool: "read_file".to_owned(),
        listed: None,
        arguments: arguments.into(),
    }
}

/// A chain with nobody in it.
struct Silent;

impl Evaluator for Silent {
    fn opinions(&self, _: &Call) -> Opinions {
        Opinions { generation: 0, members: Arc::new([]), default: ChainDefault::Allow, opinions: Vec::new() }
    }
}

struct StandingClock;

impl Clock for StandingClock {
    fn now_ms(&self) -> i64 {
        1_800_000_000_000
    }

    fn boot_ms(&self) -> u64 {
        1
    }
}
