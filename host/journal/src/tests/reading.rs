use callgate_core::entry::{KeptArguments, Kind, Outcome, Record};
use callgate_core::settle::Filing;

use super::support::{Place, add, allow, anomaly, call, case_by, denied, rule, session, settle, start};
use crate::{CallState, Content, Filter, PAGE_ENTRIES_MAX, ReadError, Reader};
use callgate_core::evaluate::ChainDefault;
use callgate_core::settle::Word;

fn page(reader: &Reader, after: u64, filter: &Filter, limit: usize) -> (Vec<u64>, u64, bool) {
    let page = reader.page(after, filter, limit).unwrap();
    (page.entries.iter().map(|entry| entry.seq).collect(), page.after, page.complete)
}

#[test]
fn entries_are_read_page_by_page_while_they_are_written() -> Result<(), ReadError> {
    let place = Place::new();
    let journal = place.open();
    let all = Filter::default();
    for _ in 0..5 {
        journal.append(vec![anomaly("x")]).unwrap();
    }
    let reader = place.reader();
    assert_eq!(page(&reader, 0, &all, 2), (vec![1, 2], 2, false));
    assert_eq!(page(&reader, 2, &all, 3), (vec![3, 4, 5], 5, false), "whether more comes is not known yet");
    assert_eq!(page(&reader, 5, &all, 3), (vec![], 5, true));
    journal.append(vec![anomaly("x")]).unwrap();
    assert_eq!(page(&reader, 5, &all, 3), (vec![6], 6, true));
    assert_eq!(page(&reader, u64::MAX, &all, 3), (vec![], u64::MAX, true));
    assert_eq!(reader.head()?.entries, 6);
    assert_eq!(reader.head()?, journal.status().head);
    assert_eq!(reader.after_newest(2, &all)?, 4);
    assert_eq!(reader.after_newest(6, &all)?, 0);
    assert_eq!(reader.after_newest(usize::MAX, &all)?, 0);
    assert_eq!(reader.after_newest(0, &all)?, 6);
    Ok(())
}

#[test]
fn a_page_is_bounded() {
    let place = Place::new();
    let journal = place.open();
    for _ in 0..3 {
        journal.append((0..500).map(|_| anomaly("x")).collect()).unwrap();
    }
    let page = place.reader().page(0, &Filter::default(), usize::MAX).unwrap();
    assert_eq!((page.entries.len(), page.after, page.complete), (PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX as u64, false));
}

#[test]
fn a_reader_needs_no_writer_and_leaves_no_mark() {
    let place = Place::new();
    allow(&place.open(), "x").unwrap();
    let before = std::fs::read(place.database()).unwrap();
    let reader = place.reader();
    assert_eq!(reader.head().unwrap().entries, 1);
    drop(reader);
    assert_eq!(std::fs::read(place.database()).unwrap(), before);
    assert_eq!(place.sound(), 1);
}

#[test]
fn filters_choose_by_what_an_entry_names() {
    let place = Place::new();
    let journal = place.open();
    journal.open_session(start(1)).unwrap();
    add(&journal, rule(Word::Deny, "write_file"));
    let read = allow(&journal, "read_file").unwrap();
    settle(&journal, denied(1, "write_file")).unwrap();
    let mut elsewhere = call("read_file", "{}");
    let mut caller = (*elsewhere.caller).clone();
    caller.server = super::support::server("git");
    elsewhere.caller = caller.into();
    settle(&journal, case_by(ChainDefault::Allow, 1, elsewhere)).unwrap();
    journal.note_outcome(session(1), read, Outcome::Ok, None);
    journal.append(vec![anomaly("x")]).unwrap();
    let reader = place.reader();
    let found = |filter: Filter| {
        let after_newest = reader.after_newest(1, &filter).unwrap();
        let (found, after, complete) = page(&reader, 0, &filter, 100);
        assert_eq!((after, complete), (7, true), "what does not fit is passed over");
        let (newest, ..) = page(&reader, after_newest, &filter, 100);
        assert_eq!(newest.last(), found.last());
        assert!(newest.len() <= 1);
        found
    };
    let any = Filter::default;
    // 1 session, 2 rule, 3 read_file on fs, 4 write_file on fs, 5 read_file on git, 6 outcome of 3, 7 anomaly
    assert_eq!(found(any()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(found(Filter { server: Some("fs".parse().unwrap()), ..any() }), [1, 3, 4, 6]);
    assert_eq!(found(Filter { server: Some("git".parse().unwrap()), ..any() }), [5]);
    assert_eq!(found(Filter { tool: Some("write_file".to_owned()), ..any() }), [2, 4]);
    assert_eq!(found(Filter { tool: Some("read_file".to_owned()), ..any() }), [3, 5, 6]);
    assert_eq!(found(Filter { decision: Some(Filing::Denied), ..any() }), [4]);
    assert_eq!(found(Filter { decision: Some(Filing::Error), ..any() }), [0; 0]);
    assert_eq!(found(Filter { kinds: Some(vec![Kind::Anomaly, Kind::RuleAdd]), ..any() }), [2, 7]);
    let both = Filter { server: Some("fs".parse().unwrap()), kinds: Some(vec![Kind::CallDecision]), ..any() };
    assert_eq!(found(both), [3, 4]);
}

#[test]
fn an_entry_is_read_with_what_lies_beside_it() {
    let place = Place::new();
    let journal = place.open();
    let entry = allow(&journal, "read_file").unwrap();
    journal.note_outcome(session(1), entry, Outcome::Ok, None);
    journal.flush().unwrap();
    let entries = place.entries().entries;
    let Content::Decision(view) = &entries[0].content else { panic!("{:?}", entries[0]) };
    assert_eq!((&*view.body.tool, view.body.decision, view.call), ("read_file", Filing::Allowed, Some(CallState::Ok)));
    let Some(KeptArguments { value: Some(value), form: Record::Full, .. }) = &view.arguments else {
        panic!("{view:?}")
    };
    assert_eq!(value, br#"{"path":"/tmp/x"}"#);
    let Content::Outcome(outcome) = &entries[1].content else { panic!("{:?}", entries[1]) };
    assert_eq!(outcome.decision.as_ref(), Some(&view.body));
}

#[test]
fn as_much_is_kept_of_arguments_as_was_asked_for() {
    let arguments = r#"{"path":"/tmp/x","n":[1,2]}"#;
    for (record, kept) in
        [(Record::Full, Some(arguments)), (Record::Summary, Some("n=[1,2], path=/tmp/x")), (Record::Digest, None)]
    {
        let mut place = Place::new();
        place.record.default = record;
        settle(&place.open(), case_by(ChainDefault::Allow, 0, call("x", arguments))).unwrap();
        let entries = place.entries().entries;
        let Content::Decision(view) = &entries[0].content else { panic!("{:?}", entries[0]) };
        let beside = view.arguments.as_ref().unwrap();
        assert_eq!(beside.form, record);
        let value = beside.value.as_deref().map(|value| std::str::from_utf8(value).unwrap());
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split(", ").map(str::to_owned).collect();
            parts.sort();
            parts
        };
        assert_eq!(value.map(sorted), kept.map(sorted));
        assert_eq!(view.body.arguments.bytes, arguments.len() as u64);
    }
}

#[test]
fn arguments_beyond_the_bound_leave_only_their_digest() {
    let place = Place::new();
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(callgate_core::entry::ARGUMENT_BYTES_RECORDED_MAX));
    settle(&place.open(), case_by(ChainDefault::Allow, 0, call("x", &large))).unwrap();
    let entries = place.entries().entries;
    let Content::Decision(view) = &entries[0].content else { panic!("{:?}", entries[0]) };
    assert_eq!(view.arguments.as_ref().unwrap().value, None);
    assert_eq!(view.body.arguments.bytes, large.len() as u64);
}

#[test]
fn what_cannot_be_read_is_shown_as_that() {
    let place = Place::new();
    let journal = place.open();
    allow(&journal, "x").unwrap();
    allow(&journal, "y").unwrap();
    drop(journal);
    place.tamper("UPDATE entry SET kind = 'no.kind' WHERE seq = 1; UPDATE entry SET body = x'7b7d' WHERE seq = 2");
    let entries = place.entries().entries;
    assert!(entries.iter().all(|entry| matches!(entry.content, Content::Unreadable(_))), "{entries:?}");
}
