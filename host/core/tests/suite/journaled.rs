//! What is written about a decision.

use std::sync::Arc;

use callgate_core::call::ARGUMENT_BYTES_JUDGED_MAX;
use callgate_core::canonical;
use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::entry::{ARGUMENT_BYTES_RECORDED_MAX, DecisionBody, Kind, Record, decision_draft};
use callgate_core::evaluate::{ChainDefault, Evaluated, Member, Ruling};
use callgate_core::port::Case;
use callgate_core::settle::{Decision, Settled, decision};
use callgate_core::verdict::{Denial, Retry, Rule};

use crate::support::call;

const SALT: [u8; 16] = [9; 16];
const CLOCK_MS: i64 = 77;

fn settled(case: &Case) -> Settled {
    Settled { decision: decision(&case.evaluated.ruling), charges: Vec::new() }
}

fn case(arguments: &str, ruling: Ruling) -> Case {
    let digest = Digest::of(b"x");
    let members = Arc::new([Member { plugin: "rules".to_owned(), component: digest, settings: digest }]);
    let evaluated =
        Evaluated { generation: 5, members, opinions: Vec::new(), ruling, notes: vec!["rules: a note".to_owned()] };
    Case { call: call(3, arguments), evaluated }
}

fn kept(arguments: &str, record: Record) -> Option<String> {
    let case = case(arguments, Ruling::Default(ChainDefault::Allow));
    let draft = decision_draft(&case, &settled(&case), CLOCK_MS, record, SALT);
    let kept = draft.arguments.unwrap();
    assert_eq!((kept.salt, kept.form), (SALT, record));
    kept.value.map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn a_decision_s_entry_has_one_shape() {
    let denial = Denial { code: "deny".to_owned(), message: "deny t".to_owned(), retry: Retry::Never };
    let rule = Rule { path: "/rules/0".to_owned(), policy: None, text: "deny t".to_owned() };
    let case = case(r#"{"a":1}"#, Ruling::Deny { plugin: "rules".to_owned(), denial, rule: Some(rule) });
    let draft = decision_draft(&case, &settled(&case), CLOCK_MS, Record::Digest, SALT);
    let (frame, x) = (Digest::of(br#"{"a":1}"#), Digest::of(b"x"));
    let salted = Digest::of_parts(&[&SALT, br#"{"a":1}"#]);
    let expected = format!(
        concat!(
            r#"{{"session":"ses_01010101010101010101010101010101","connection":1,"call":3,"request_id":"3","frame":"{frame}","#,
            r#""server":{{"id":"","name":"files"}},"client":"client","tool":"t","decision":"denied","verdict":"deny","#,
            r#""code":"rules/deny","reason":"deny t","retry":"never","plugin":"rules","rule":{{"path":"/rules/0","text":"deny t"}},"#,
            r#""generation":5,"chain":[{{"plugin":"rules","component":"{x}","settings":"{x}"}}],"notes":["rules: a note"],"#,
            r#""arguments":{{"digest":"{salted}","bytes":7}}}}"#,
        ),
        frame = frame,
        x = x,
        salted = salted,
    );
    assert_eq!(draft.kind, Kind::CallDecision);
    assert_eq!(String::from_utf8(draft.body.clone()).unwrap(), expected);
    let body: DecisionBody = serde_json::from_slice(&draft.body).unwrap();
    assert_eq!(serde_json::to_vec(&body).unwrap(), draft.body);
}

#[test]
fn an_allowed_call_s_entry_gives_no_reason() {
    let case = case("{}", Ruling::Allow { plugin: "rules".to_owned(), rule: None });
    let draft = decision_draft(&case, &settled(&case), CLOCK_MS, Record::Full, SALT);
    let body: DecisionBody = serde_json::from_slice(&draft.body).unwrap();
    assert_eq!((body.code, body.reason, body.retry, body.plugin.as_deref()), (None, None, None, Some("rules")));
}

#[test]
fn a_call_that_was_given_up_on_is_written_as_an_error() {
    let case = case("{}", Ruling::Unsettled);
    let settled = settled(&case);
    assert!(matches!(&settled.decision, Decision::Refused(reason) if reason.code == Code::ChainUnsettled));
    let draft = decision_draft(&case, &settled, CLOCK_MS, Record::Full, SALT);
    let text = String::from_utf8(draft.body).unwrap();
    assert!(text.contains(r#""decision":"error","verdict":"deny","code":"chain-unsettled""#), "{text}");
}

#[test]
fn full_arguments_are_the_exact_bytes_up_to_the_bound() {
    let arguments = r#"{ "b":1e2 , "a":"\u0041"}"#;
    assert_eq!(kept(arguments, Record::Full).as_deref(), Some(arguments));
    assert_eq!(kept(arguments, Record::Digest), None);
    let sized = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    assert!(kept(&sized(ARGUMENT_BYTES_RECORDED_MAX), Record::Full).is_some());
    assert_eq!(kept(&sized(ARGUMENT_BYTES_RECORDED_MAX + 1), Record::Full), None);
}

#[test]
fn a_summary_is_key_and_value_in_their_order_cut_short() {
    assert_eq!(kept("{}", Record::Summary).as_deref(), Some(""));
    let arguments =
        r#"{ "path" : "/a\n\u00e9", "n": 1e400, "big":12345678901234567890123, "o":{"x" :[1]}, "\u0061":null}"#;
    let expected = "path=/a\né, n=1e400, big=12345678901234567890123, o={\"x\" :[1]}, a=null";
    assert_eq!(kept(arguments, Record::Summary).as_deref(), Some(expected));
    let long = format!(r#"{{"{}":"{}","b":"{}"}}"#, "k".repeat(81), "ä".repeat(81), "ä".repeat(80));
    let expected = format!("{}…={}…, b={}", "k".repeat(80), "ä".repeat(80), "ä".repeat(80));
    assert_eq!(kept(&long, Record::Summary), Some(expected));
}

#[test]
fn a_summary_has_a_bound_as_a_whole() {
    let members: Vec<String> = (0..9000).map(|index| format!(r#""key {index}":"value""#)).collect();
    let summary = kept(&format!("{{{}}}", members.join(",")), Record::Summary).unwrap();
    assert!(summary.len() <= ARGUMENT_BYTES_RECORDED_MAX && summary.len() > ARGUMENT_BYTES_RECORDED_MAX - 100);
    assert!(summary.starts_with("key 0=value, key 1=value") && summary.ends_with('…'));
    let more_than_is_judged = format!("{{\"a\":\"{}\"}}", "x".repeat(ARGUMENT_BYTES_JUDGED_MAX));
    assert_eq!(kept(&more_than_is_judged, Record::Summary), None);
}

#[test]
fn the_digest_that_names_a_call_is_not_the_one_that_commits_to_its_bytes() {
    let case = case("{}", Ruling::Default(ChainDefault::Allow));
    let draft = decision_draft(&case, &settled(&case), CLOCK_MS, Record::Full, SALT);
    let body: DecisionBody = serde_json::from_slice(&draft.body).unwrap();
    assert_ne!(body.arguments.digest, canonical::digest("{}"));
}

#[test]
fn a_kind_is_one_text_everywhere() {
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{}\"", kind.as_str()));
        assert_eq!(kind.as_str().parse(), Ok(*kind));
        assert!(kind.meaning().starts_with(char::is_alphabetic), "{:?}", kind.meaning());
    }
    assert!("call.decided".parse::<Kind>().is_err());
}
