//! What goes into a plugin and what comes out of it.

use callgate_core::digest::Digest;
use callgate_core::verdict::{Answer, Failure, Question, Rule, Verdict};
use callgate_plugin::{ConfigureError, Limits, SettingsError, SettingsWarning};

use crate::fixture::{
    ANSWER_DECIDE, CONFIGURED, DECISION, Guest, KEPT, Memory, allow, call, decision, decision_with_charges, deny,
    engine, full_call, ready,
};

fn whole(verdict: Verdict) -> Answer {
    let rule = Rule { path: "/rules/5".to_owned(), policy: Some("night".to_owned()), text: "deny all".to_owned() };
    Answer {
        verdict,
        rule: Some(rule),
        notes: vec!["first".to_owned(), String::new(), "ünd".to_owned()],
        charges: Vec::new(),
    }
}

#[test]
fn every_kind_of_answer_comes_out_as_the_plugin_gave_it() {
    let engine = engine(Limits::SHIPPED);
    let question = Question { code: "large".to_owned(), message: "really?".to_owned(), presence: true };
    let verdicts = [deny("closed").verdict, Verdict::Ask(question), Verdict::Allow, Verdict::Abstain];
    for verdict in verdicts {
        for answer in [Answer { verdict: verdict.clone(), ..allow() }, whole(verdict)] {
            let plugin = ready(&engine, &Guest::answering(&answer));
            assert_eq!(plugin.decide(&call("read_file")), Ok(answer));
        }
    }
}

/// Copies pointers of the call into its notes: what the guest was given comes back as the host reads it.
fn echo() -> Guest {
    // Texts of the record itself; then those of its two attributes, which lie where the list at 52 points.
    let texts = [4, 12, 20, 28, 36, 44, 60, 84, 92, 100].map(|offset| format!("offset={offset} (local.get $call)"));
    let attributes = [0, 8, 16, 24].map(|offset| format!("offset={offset} (i32.load offset=52 (local.get $call))"));
    let copied = texts.into_iter().chain(attributes).map(|from| format!("(i64.load {from})"));
    // The nine bytes of the annotations, and the two that say whether there are an agent and a definition digest.
    let pointed = [(68, 9), (0, 1), (80, 1)].map(|(offset, length)| {
        let pointer = format!("(i64.extend_i32_u (i32.add (local.get $call) (i32.const {offset})))");
        format!("(i64.or {pointer} (i64.const {}))", i64::from(length) << 32)
    });
    let notes: Vec<String> = copied.chain(pointed).collect();
    let stores = notes.iter().enumerate().map(|(index, note)| {
        let at = NOTES + 8 * index;
        ["(i64.store (i32.const ", &at.to_string(), ") ", note, ")"].concat()
    });
    let body = stores.chain([ANSWER_DECIDE.to_owned()]).collect::<String>();
    let mut answer = Memory { at: DECISION, bytes: decision(&allow()) };
    answer.point(56, NOTES, notes.len());
    Guest { decision: answer.bytes, ..Guest::deciding(&body) }
}

/// Where the list of notes lies that [`echo`] makes.
const NOTES: usize = 4096;

#[test]
fn a_plugin_sees_everything_that_a_call_has() {
    let plugin = ready(&engine(Limits::SHIPPED), &echo());
    let notes = plugin.decide(&full_call()).unwrap().notes;
    let expected = [
        "agt_cursor",
        "cursor",
        "executable",
        "inspector",
        "srv_1",
        "fs",
        "write_file",
        &Digest::of(b"definition").to_string(),
        r#"{"path":"/tmp/ä"}"#,
        &full_call().arguments.digest().to_string(),
        "transport",
        "stdio",
        "protocol.version",
        "2025-11-25",
        "\u{1}\u{1}\u{1}\u{1}\0\0\u{0}\u{1}\u{1}",
        "\u{1}",
        "\u{1}",
    ];
    assert_eq!(notes[..14], expected[..14]);
    // Annotations: some, then some(true), some(false), none (whose value has no meaning), some(true).
    let flags = notes[14].as_bytes();
    assert_eq!(
        (flags[0], &flags[1..3], &flags[3..5], flags[5], &flags[7..9]),
        (1, &[1, 1][..], &[1, 0][..], 0, &[1, 1][..])
    );
    assert_eq!(notes[15..], expected[15..]);
}

#[test]
fn what_a_call_does_not_have_a_plugin_does_not_see() {
    // The agent's flag, the annotations' and the definition digest's: all three say none.
    let body = "(i32.store (i32.const 4096) (local.get $call)) (i32.store (i32.const 4100) (i32.const 1))
        (i32.store (i32.const 4104) (i32.add (local.get $call) (i32.const 68))) (i32.store (i32.const 4108) (i32.const 1))
        (i32.store (i32.const 4112) (i32.add (local.get $call) (i32.const 80))) (i32.store (i32.const 4116) (i32.const 1))
        (i32.const 1024)";
    let mut answer = Memory { at: DECISION, bytes: decision(&allow()) };
    answer.point(56, 4096, 3);
    let guest = Guest { decision: answer.bytes, ..Guest::deciding(body) };
    let plugin = ready(&engine(Limits::SHIPPED), &guest);
    assert_eq!(plugin.decide(&call("read_file")).unwrap().notes, ["\0", "\0", "\0"]);
}

#[test]
fn an_answer_that_breaks_a_bound_is_no_answer() {
    let engine = engine(Limits::SHIPPED);
    let bad = |answer: &Answer| match ready(&engine, &Guest::answering(answer)).decide(&call("read_file")) {
        Err(Failure::BadAnswer(what)) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(bad(&deny("Bad Code")), "the code `Bad Code` is not kebab-case of at most 64 bytes");
    let notes = vec!["n".to_owned(); 65];
    assert_eq!(bad(&Answer { notes, ..allow() }), "it has 65 notes, more than 64");
}

#[test]
fn a_broken_charge_breaks_the_answer() {
    let guest = Guest { decision: decision_with_charges(&allow(), 1), ..Guest::answering(&allow()) };
    let failure = ready(&engine(Limits::SHIPPED), &guest).decide(&call("read_file")).unwrap_err();
    assert_eq!(failure.to_string(), "its answer breaks the contract: a charge has no key");
}

#[test]
fn an_answer_that_cannot_be_read_is_no_answer() {
    let engine = engine(Limits::SHIPPED);
    let bad = |alter: fn(&mut Vec<u8>)| {
        let mut decision = decision(&deny("closed"));
        alter(&mut decision);
        let guest = Guest { decision, ..Guest::answering(&allow()) };
        match ready(&engine, &guest).decide(&call("read_file")) {
            Err(Failure::BadAnswer(what)) => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad(|decision| decision[0] = 9), "unexpected discriminant: 9");
    assert_eq!(bad(|decision| decision[20] = 3), "unexpected discriminant: 3");
    assert_eq!(bad(|decision| decision[15] = 0xff), "string pointer/length out of bounds of memory");
    assert_eq!(bad(|decision| decision[63] = 0xff), "list pointer/length out of bounds of memory");
    let not_utf8 = |decision: &mut Vec<u8>| *decision.iter_mut().find(|byte| **byte == b'c').unwrap() = 0xff;
    assert_eq!(bad(not_utf8), "invalid utf-8 sequence of 1 bytes from index 0");

    let outside = ready(&engine, &Guest::deciding("(i32.const 0x7ffffffc)")).decide(&call("read_file"));
    assert_eq!(outside, Err(Failure::BadAnswer("pointer out of bounds of memory".to_owned())));
}

#[test]
fn settings_reach_the_plugin_and_what_it_says_of_them_comes_back() {
    let engine = engine(Limits::SHIPPED);
    // One warning, whose path is /a and whose message is the settings document itself.
    let mut said = Memory { at: CONFIGURED, bytes: vec![0; 12] };
    let warning = said.room(16);
    said.point(4, warning, 1);
    said.text(warning - CONFIGURED, "/a");
    let body = format!(
        "(i32.store (i32.const {0}) (local.get $text)) (i32.store (i32.const {1}) (local.get $length)) (i32.const 512)",
        warning + 8,
        warning + 12
    );
    let guest = Guest { configured: said.bytes, ..Guest::configuring(&body) };
    let plugin = engine.load(&guest.build()).unwrap();
    let settings = r#"{"rules":[]}"#;
    let configured = plugin.configure("guard", settings, KEPT).unwrap();
    let expected = SettingsWarning { path: "/a".to_owned(), message: settings.to_owned() };
    assert_eq!(configured.warnings(), [expected]);
    let member = configured.member();
    assert_eq!(
        (&*member.plugin, member.component, member.settings),
        ("guard", plugin.digest(), Digest::of(settings.as_bytes()))
    );
}

#[test]
fn settings_that_are_refused_are_refused_with_the_plugins_words() {
    let mut said = Memory { at: CONFIGURED, bytes: vec![0; 12] };
    said.bytes[0] = 1;
    let error = said.room(28);
    said.point(4, error, 1);
    said.text(error - CONFIGURED, "/rules/0");
    said.text(error - CONFIGURED + 8, "no such effect");
    said.bytes[error - CONFIGURED + 16] = 1;
    said.text(error - CONFIGURED + 20, "allow, deny or ask");
    let plugin = engine(Limits::SHIPPED).load(&Guest { configured: said.bytes, ..Guest::answering(&allow()) }.build());
    let refused = plugin.unwrap().configure("guard", "{}", KEPT).unwrap_err();
    assert_eq!(refused.to_string(), "/rules/0: no such effect (hint: allow, deny or ask)");
    let ConfigureError::Refused(refused) = refused else { panic!("{refused:?}") };
    let expected = SettingsError {
        path: "/rules/0".to_owned(),
        message: "no such effect".to_owned(),
        hint: Some("allow, deny or ask".to_owned()),
    };
    assert_eq!(refused.errors(), [expected]);
}

#[test]
fn settings_refused_without_a_reason_and_settings_too_large_are_not_in_force() {
    let silent = Guest { configured: [vec![1], vec![0; 11]].concat(), ..Guest::answering(&allow()) };
    let engine = engine(Limits { settings_bytes: 8, ..Limits::SHIPPED });
    let plugin = engine.load(&silent.build()).unwrap();
    let told = |settings| plugin.configure("guard", settings, KEPT).unwrap_err().to_string();
    assert_eq!(told("{}"), "its answer breaks the contract: it refuses its settings without saying why");
    assert_eq!(told("{     }  "), "the settings take 9 bytes, more than the 8 that a plugin is given");
}

#[test]
fn arguments_over_the_bound_are_refused_before_a_plugin_sees_them() {
    let engine = engine(Limits { argument_bytes: 10, ..Limits::SHIPPED });
    let plugin = ready(&engine, &Guest::answering(&allow()));
    let with = |arguments: &str| callgate_core::call::Call { arguments: arguments.into(), ..call("read_file") };
    assert_eq!(plugin.decide(&with("{\"a\":1234}")), Ok(allow()));
    let failure = plugin.decide(&with("{\"a\":12345}")).unwrap_err();
    assert_eq!(failure, Failure::TooLarge { bytes: 11, limit_bytes: 10 });
    assert_eq!(failure.to_string(), "the arguments take 11 bytes, more than the 10 that can be judged");
}
