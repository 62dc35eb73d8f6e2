use std::process::{Command, Stdio};

use callgate_core::digest::Digest;
use callgate_core::entry::{Draft, Kind};
use callgate_core::policy::{PolicyChange, PolicyItem, apply};
use callgate_core::port::Ledger;
use callgate_core::settle::Word;
use proptest::prelude::*;

use super::support::{
    Place, add, adding, allow, anomaly, budget, call, case_by, change, full_journal, grant, on_server, removing, rule,
    session, start,
};
use crate::{Breach, Claim, Journal, PolicyError, Verification, verify};
use callgate_core::entry::Outcome;
use callgate_core::evaluate::ChainDefault;

/// Everything that is hashed, and the policy: what a verification vouches for.
fn contents(place: &Place) -> String {
    // As a verification reads it: a schema with a flipped bit may be read by one connection and not by another.
    let connection = place.reader().connection;
    let dump = |sql: &str| -> Result<String, rusqlite::Error> {
        let mut query = connection.prepare(sql)?;
        let columns = query.column_count();
        let rows = query.query_map([], |row| {
            (0..columns).map(|column| Ok(format!("{:?}", row.get_ref(column)?))).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(format!("{:?}", rows.collect::<Result<Vec<_>, _>>()?))
    };
    [
        "SELECT seq, time_ms, kind, body, chain FROM entry ORDER BY seq",
        "SELECT * FROM policy ORDER BY added",
        "SELECT seq, CASE form WHEN 'full' THEN salt END, CASE form WHEN 'full' THEN value END FROM entry",
        "SELECT * FROM open_call ORDER BY decision",
        "SELECT * FROM outcome ORDER BY decision",
        "SELECT install, generation FROM meta",
    ]
    .map(|sql| dump(sql).unwrap())
    .join("\n")
}

fn breach(place: &Place) -> (u64, Breach) {
    match place.verify() {
        Verification::Broken { seq, breach } => (seq, breach),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_journal_with_every_kind_of_entry_is_sound() {
    let place = full_journal();
    let Verification::Sound(sound) = place.verify() else { panic!("{:?}", place.verify()) };
    assert_eq!(sound.pending_calls, 1);
    assert_eq!(sound.arguments, 82);
    assert_eq!(sound.claim, Claim::Chained { entries: sound.head.entries });
    assert!(sound.claim.to_string().starts_with("hash-chained from entry 1 to entry "));
}

#[test]
fn a_head_that_was_kept_is_looked_for_anywhere() {
    let place = Place::new();
    let journal = place.open();
    let genesis = journal.status().head;
    let heads: Vec<_> = (0..3).map(|_| (allow(&journal, "x").unwrap(), journal.status().head).1).collect();
    let with = |head| verify(&place.database(), Some(&place.marker()), Some(head));
    for head in [&genesis, &heads[0], &heads[2]] {
        let Verification::Sound(sound) = with(head.chain) else { panic!("{:?}", with(head.chain)) };
        assert_eq!(sound.claim, Claim::ChainedThrough { entries: 3, kept: head.entries });
    }
    let foreign = Digest::of(b"foreign");
    assert_eq!(with(foreign), Verification::Broken { seq: 3, breach: Breach::HeadNotFound(foreign) });
}

#[test]
fn what_is_missing_for_a_verification_is_told() {
    let place = full_journal();
    let unverifiable = |verification| match verification {
        Verification::Unverifiable { missing, hint } => assert!(!missing.is_empty() && !hint.is_empty()),
        other => panic!("{other:?}"),
    };
    unverifiable(verify(&place.folder.path().join("nothing"), None, None));
    unverifiable(verify(&place.folder.path().join("nothing"), Some(&place.marker()), None));
    unverifiable(verify(&place.database(), Some(&place.folder.path().join("nothing")), None));
    place.tamper("PRAGMA user_version = 2");
    unverifiable(place.verify());
    std::fs::write(place.database(), "no database at all, but long enough to be taken for one".repeat(30)).unwrap();
    unverifiable(place.verify());
}

#[test]
fn the_journal_of_another_install_does_not_verify_as_this_one() {
    let (place, other) = (full_journal(), full_journal());
    std::fs::copy(other.database(), place.database()).unwrap();
    assert!(matches!(breach(&place), (0, Breach::OtherInstall { .. })));
    assert!(matches!(verify(&place.database(), None, None), Verification::Sound(_)), "by itself it holds");
    other.tamper("UPDATE meta SET install = 'ins_00000000000000000000000000000000'");
    assert_eq!(verify(&other.database(), None, None), Verification::Broken { seq: 1, breach: Breach::Hash });
}

/// Edits, and the entry where each has to show; `None` where any will do.
const EDITS: &[(&str, Option<u64>)] = &[
    (
        "UPDATE entry SET body = CAST(replace(CAST(body AS TEXT), 'read_file_0', 'read_file_1') AS BLOB) WHERE seq = 5",
        Some(5),
    ),
    ("UPDATE entry SET body = CAST(body || ' ' AS BLOB) WHERE seq = 7", Some(7)),
    ("UPDATE entry SET body = x'' WHERE seq = 7", Some(7)),
    ("UPDATE entry SET time_ms = time_ms + 1 WHERE seq = 9", Some(9)),
    ("UPDATE entry SET kind = 'anomaly' WHERE seq = 9", Some(9)),
    ("UPDATE entry SET kind = 'anomalie' WHERE seq = 9", Some(9)),
    ("UPDATE entry SET chain = zeroblob(32) WHERE seq = 9", Some(9)),
    ("DELETE FROM entry WHERE seq = 12", Some(12)),
    ("DELETE FROM entry WHERE seq = 1", Some(1)),
    ("UPDATE entry SET seq = 100000 WHERE seq = 12", Some(12)),
    ("UPDATE entry SET seq = 0 WHERE seq = 1", Some(1)),
    ("UPDATE entry SET seq = -seq WHERE seq = 1", Some(1)),
    (
        "INSERT INTO entry (seq, time_ms, kind, body, chain) SELECT max(seq) + 1, time_ms, kind, body, chain FROM entry",
        None,
    ),
    (
        "INSERT INTO entry (seq, time_ms, kind, body, chain) SELECT max(seq) + 2, time_ms, kind, body, chain FROM entry",
        None,
    ),
    ("UPDATE entry SET value = x'7b7d' WHERE seq = 5", Some(5)),
    ("UPDATE entry SET salt = zeroblob(16) WHERE seq = 5", Some(5)),
    ("UPDATE entry SET salt = zeroblob(16), form = 'full', value = x'7b7d' WHERE seq = 1", Some(1)),
    ("INSERT INTO open_call VALUES (5, (SELECT id FROM session))", None),
    ("INSERT INTO counter VALUES ('\"everyone\"', '{}', '{}')", None),
    ("UPDATE meta SET counted = 7", None),
    ("UPDATE meta SET counted = 100000", None),
    ("INSERT INTO outcome SELECT max(seq), max(seq) FROM entry", None),
    ("DELETE FROM outcome WHERE decision = 5", None),
    ("UPDATE outcome SET entry = 1 WHERE decision = 5", None),
    ("UPDATE outcome SET entry = entry + 1 WHERE decision = 5", None),
    ("UPDATE outcome SET entry = 100000 WHERE decision = 5", None),
    ("INSERT INTO outcome VALUES (6, 7)", None),
    ("INSERT INTO outcome VALUES (100000, 7)", None),
    ("UPDATE policy SET item = replace(item, 'allow', 'deny') WHERE kind = 'rule'", None),
    ("UPDATE policy SET item = replace(item, '/srv', '/') WHERE kind = 'grant'", None),
    ("UPDATE policy SET item = '{}' WHERE kind = 'rule'", None),
    ("UPDATE policy SET item = 'x' WHERE kind = 'grant'", None),
    ("UPDATE policy SET key = replace(key, 'read', 'x') WHERE kind = 'rule'", None),
    ("UPDATE policy SET key = 'x' WHERE kind = 'rule'", None),
    ("UPDATE policy SET kind = 'budget' WHERE kind = 'grant'", None),
    ("UPDATE policy SET added = 1 WHERE kind = 'grant'", None),
    ("DELETE FROM policy", None),
    ("DELETE FROM policy WHERE kind = 'grant'", None),
    ("INSERT INTO policy VALUES (1, 'rule', '{\"tool\":\"*\"}', '{\"effect\":\"allow\",\"tool\":\"*\"}')", None),
    ("UPDATE meta SET generation = generation + 1", None),
    ("UPDATE meta SET generation = 0", None),
    ("DELETE FROM session", None),
    ("UPDATE session SET id = 'ses_x'", None),
    ("INSERT INTO session VALUES ('ses_x', 1)", None),
];

#[test]
fn edits_show_where_they_were_made() {
    let pristine = full_journal();
    for (sql, at) in EDITS {
        let place = copy(&pristine);
        place.tamper(sql);
        let (seq, breach) = breach(&place);
        assert!(at.is_none_or(|at| at == seq), "{sql}: entry {seq}: {breach}");
    }
}

#[test]
fn arguments_may_be_pruned() {
    let place = full_journal();
    place.tamper("UPDATE entry SET salt = NULL, form = NULL, value = NULL WHERE seq > 20");
    let Verification::Sound(sound) = place.verify() else { panic!("{:?}", place.verify()) };
    assert!(sound.arguments > 0 && sound.arguments < 82);
}

#[test]
fn entries_cut_off_at_the_end_show_only_against_a_kept_head() {
    let place = full_journal();
    let Verification::Sound(before) = place.verify() else { panic!("{:?}", place.verify()) };
    // The end of this journal: an outcome.unknown, then one allowed call.
    place.tamper(&format!("DELETE FROM entry WHERE seq = {}", before.head.entries));
    assert!(matches!(place.verify(), Verification::Sound(_)));
    let kept = verify(&place.database(), None, Some(before.head.chain));
    assert!(matches!(kept, Verification::Broken { breach: Breach::HeadNotFound(_), .. }), "{kept:?}");
}

/// Makes a copy of a closed journal, with its marker.
fn copy(from: &Place) -> Place {
    let place = Place::new();
    for (from, to) in [(from.database(), place.database()), (from.marker(), place.marker())] {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
    place
}

/// A small generator of numbers, so that a failing flip can be found again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Where in the file the hashed bytes of the entries lie.
fn hashed_bytes(place: &Place, file: &[u8]) -> Vec<usize> {
    let entries = place.entries().entries;
    let mut places = Vec::new();
    for part in entries.iter().flat_map(|entry| [&entry.body[..], &entry.chain.as_bytes()[..]]) {
        // A long body is stored in pieces; its beginning is in one.
        let part = &part[..part.len().min(400)];
        // The table's first page, its root, holds old copies from before it was split.
        let at = file.windows(part.len()).rposition(|window| window == part);
        places.extend(at.into_iter().flat_map(|at| at..at + part.len()));
    }
    places
}

/// Flips bits of a closed journal, one at a time, at places that `place_of` chooses, and returns how many were found. Those
/// that were not must have changed nothing: pages have free space, with old copies of entries in it, that nobody reads.
fn flip(place: &Place, flips: usize, mut place_of: impl FnMut(&mut Numbers) -> usize) -> usize {
    let (file, before) = (std::fs::read(place.database()).unwrap(), contents(place));
    let mut numbers = Numbers(1);
    let mut found = 0;
    for _ in 0..flips {
        let (at, bit) = (place_of(&mut numbers), numbers.below(8));
        let mut flipped = file.clone();
        flipped[at] ^= 1 << bit;
        std::fs::write(place.database(), flipped).unwrap();
        match place.verify() {
            Verification::Broken { .. } | Verification::Unverifiable { .. } => found += 1,
            Verification::Sound(_) => assert_eq!(contents(place), before, "bit {bit} of byte {at}"),
        }
        // Nor does a damaged journal bring the daemon down.
        drop(place.try_open());
        for suffix in ["-wal", "-shm"] {
            crate::files::remove_if_there(&crate::files::beside(&place.database(), suffix)).unwrap();
        }
    }
    found
}

#[test]
fn every_flipped_bit_in_hashed_bytes_is_found() {
    let place = full_journal();
    place.tamper("VACUUM");
    let places = hashed_bytes(&place, &std::fs::read(place.database()).unwrap());
    assert!(places.len() > 20_000, "only {} hashed bytes were found", places.len());
    let found = flip(&place, 1000, |numbers| places[numbers.below(places.len())]);
    assert_eq!(found, 1000, "flips that hit what is read");
}

#[test]
fn a_flipped_bit_anywhere_is_found_or_changes_nothing() {
    let place = full_journal();
    let bytes = std::fs::metadata(place.database()).unwrap().len();
    let found = flip(&place, 1000, |numbers| numbers.below(usize::try_from(bytes).unwrap()));
    assert!(found > 500, "only {found} of 1000 flips hit what is read");
}

/// Something that is done to a journal.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<String>),
    Session(u8, bool),
    Settle { allowed: bool, tool: String, arguments: String, generation_off: bool },
    Outcome { decision: u64, outcome: Outcome },
    Note(String),
    Change(Vec<(bool, u8)>),
    Pass(u32),
    Set(i32),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![Just(Outcome::Ok), Just(Outcome::Error)];
    let step = prop_oneof![
        prop::collection::vec(".{0,40}", 0..4).prop_map(Step::Append),
        (0..4u8, any::<bool>()).prop_map(|(number, resumed)| Step::Session(number, resumed)),
        (any::<bool>(), ".{0,20}", "\\{\"[a-z]{0,9}\":[0-9]{1,20}\\}", prop::bool::weighted(0.2)).prop_map(
            |(allowed, tool, arguments, generation_off)| Step::Settle { allowed, tool, arguments, generation_off }
        ),
        (0..30u64, outcome).prop_map(|(decision, outcome)| Step::Outcome { decision, outcome }),
        ".{0,40}".prop_map(Step::Note),
        prop::collection::vec((any::<bool>(), 0..9u8), 0..4).prop_map(Step::Change),
        (0..100_000u32).prop_map(Step::Pass),
        any::<i32>().prop_map(Step::Set),
        Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// Two of three numbers in a row may be of one key.
fn numbered_item(number: u8) -> PolicyItem {
    match number {
        0 => rule(Word::Deny, "x").into(),
        1 => rule(Word::Allow, "x").into(),
        2 => on_server(rule(Word::Deny, "x"), "fs").into(),
        3 => budget(r#"{"limit":3,"tool":"x"}"#),
        4 => budget(r#"{"limit":4,"tool":"x"}"#),
        5 => budget(r#"{"limit":4,"all_tools":true,"per":"everyone"}"#),
        6 => grant("x", &[]),
        7 => grant("x", &[("path", "/a")]),
        _ => grant("x", &[("path", "/b")]),
    }
}

fn take(place: &Place, journal: &mut Option<Journal>, step: &Step) {
    let open = journal.as_ref().unwrap();
    let generation = open.status().generation;
    match step.clone() {
        Step::Append(details) => {
            open.append(details.iter().map(|detail| anomaly(detail)).collect()).unwrap();
        }
        Step::Session(number, resumed) => {
            open.open_session(callgate_core::entry::SessionStartBody { resumed, ..start(number) }).ok();
        }
        Step::Settle { allowed, tool, arguments, generation_off } => {
            let default = if allowed { ChainDefault::Allow } else { ChainDefault::Deny };
            let generation = generation + u64::from(generation_off);
            open.settle(vec![case_by(default, generation, call(&tool, &arguments))]);
        }
        Step::Outcome { decision, outcome } => open.note_outcome(session(1), decision, outcome, None),
        Step::Note(detail) => open.note(anomaly(&detail)),
        Step::Change(changes) => {
            let changes = changes.into_iter().map(|(adds, number)| {
                if adds { adding(numbered_item(number)) } else { removing(numbered_item(number)) }
            });
            let changes: Vec<PolicyChange> = changes.collect();
            let mut expected = open.policy().unwrap().items;
            let changed = change(open, &changes);
            if !changes.is_empty() {
                // What the journal makes of them is what core says.
                let applied = apply(&mut expected, &changes).map_err(PolicyError::Conflict);
                assert_eq!(changed.map(|_| ()), applied);
            }
            assert_eq!(open.policy().unwrap().items, expected);
        }
        Step::Pass(ms) => place.clock.pass(ms),
        Step::Set(by_ms) => place.clock.set(by_ms.into()),
        Step::Reopen => {
            drop(journal.take());
            *journal = Some(place.open());
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_the_journal_verifies_and_no_edit_does(
        steps in steps(),
        edited in any::<prop::sample::Index>(),
        edit in 0..5usize,
        at in any::<prop::sample::Index>(),
    ) {
        let place = Place::new();
        let mut journal = Some(place.open());
        for step in &steps {
            take(&place, &mut journal, step);
        }
        drop(journal.take());
        let entries = place.sound();
        if entries > 0 {
            let seq = edited.index(usize::try_from(entries).unwrap()) + 1;
            let body = &place.entries().entries[seq - 1].body;
            let mut other = body.clone();
            other[at.index(body.len())] ^= 1;
            place.tamper(&match edit {
                0 => format!("UPDATE entry SET body = x'{}' WHERE seq = {seq}", hex(&other)),
                1 => format!("UPDATE entry SET time_ms = time_ms - 1 WHERE seq = {seq}"),
                2 => format!(
                    "UPDATE entry SET kind = CASE kind WHEN 'anomaly' THEN 'daemon.stop' ELSE 'anomaly' END WHERE seq = {seq}"
                ),
                3 => format!("UPDATE entry SET seq = 1000000 WHERE seq = {seq}"),
                _ => format!("UPDATE entry SET chain = CAST(substr(chain, 2) || substr(chain, 1, 1) AS BLOB) WHERE seq = {seq}"),
            });
            let found = place.verify();
            let broken = matches!(found, Verification::Broken { .. });
            prop_assert!(broken, "{found:?}");
        }
    }
}

/// What the verifier in Python says: its exit code and its words. `None` without a Python that can run it.
#[expect(clippy::disallowed_methods, reason = "the verifier is a program of its own, and this is a test")]
fn by_python(place: &Place, head: Option<Digest>) -> Option<(i32, String)> {
    let verifier = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/verifier/verify_journal.py");
    let mut command = Command::new("python3");
    command.arg(verifier).arg(place.database()).args(head.map(|head| head.to_string()));
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            let words = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            Some((output.status.code().unwrap(), words))
        }
        Err(error) => {
            eprintln!("not tried: python3 cannot be started: {error}");
            None
        }
    }
}

#[test]
fn the_verifier_in_python_agrees() {
    let pristine = full_journal();
    let Verification::Sound(sound) = pristine.verify() else { panic!("{:?}", pristine.verify()) };
    let Some(found) = by_python(&pristine, None) else { return };
    let expected = format!("sound entries={} head={}\n", sound.head.entries, sound.head.chain);
    assert_eq!(found, (0, expected.clone()));
    let middle = pristine.entries().entries[30].chain;
    assert_eq!(by_python(&pristine, Some(middle)), Some((0, expected)));
    assert_eq!(by_python(&pristine, Some(Digest::of(b"foreign"))).unwrap().0, 1);
    for (sql, _) in EDITS {
        let place = copy(&pristine);
        place.tamper(sql);
        let (code, words) = by_python(&place, None).unwrap();
        assert_eq!(code, 1, "{sql}: {words}");
    }
    let newer = copy(&pristine);
    newer.tamper("PRAGMA user_version = 2");
    assert_eq!(by_python(&newer, None).unwrap().0, 3);
}

#[test]
fn the_verifier_in_python_agrees_while_the_journal_is_written() {
    let place = Place::new();
    let journal = place.open();
    journal.open_session(start(1)).unwrap();
    add(&journal, rule(Word::Deny, "x"));
    add(&journal, grant("ünïcödé \u{1}\u{7f}", &[("a\"", "re:\\s")]));
    allow(&journal, "y").unwrap();
    journal.append(vec![Draft { kind: Kind::Anomaly, ..anomaly("ünïcode \u{0}") }]).unwrap();
    let Some((code, words)) = by_python(&place, None) else { return };
    assert_eq!(code, 0, "{words}");
    assert_eq!(place.sound(), 5);
}
