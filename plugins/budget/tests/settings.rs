//! Every way in which settings are refused: where, what, and what to write instead.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_plugin_budget::{BUDGETS_MAX, Budgets};
use callgate_sdk::testing::Harness;
use callgate_sdk::{Call, Verdict};
use serde_json::{Value, json};

fn refused(budgets: &Value) -> Vec<(String, String, Option<String>)> {
    refused_document(&json!({ "budgets": budgets }).to_string())
}

fn refused_document(settings: &str) -> Vec<(String, String, Option<String>)> {
    let errors = Harness::<Budgets>::new(settings).unwrap_err();
    errors.into_iter().map(|error| (error.path, error.message, error.hint)).collect()
}

fn error(path: &str, message: &str, hint: &str) -> (String, String, Option<String>) {
    (path.to_owned(), message.to_owned(), Some(hint.to_owned()).filter(|hint| !hint.is_empty()))
}

/// A budget of all tools with one more key.
fn with(key: &str, value: &Value) -> Value {
    json!({"limit": 1, "all_tools": true, key: value})
}

#[test]
fn a_budget_is_about_one_tool_pattern_or_all_tools() {
    let hint = "add `tool`, or `all_tools`: true for the calls of all tools together";
    assert_eq!(
        refused(&json!([
            {"limit": 1},
            {"limit": 1, "tool": "a", "all_tools": true},
            {"limit": 1, "all_tools": false},
            {"limit": 1, "tool": ""},
        ])),
        [
            error("/budgets/0", "a budget names a `tool` or counts `all_tools`", hint),
            error("/budgets/1", "a budget names a `tool` or counts `all_tools`, not both", "write two budgets"),
            error(
                "/budgets/2/all_tools",
                "`all_tools` is true or left out",
                "write `all_tools`: true, or name a `tool`"
            ),
            error("/budgets/3/tool", "an empty pattern", "write * to match everything"),
        ]
    );
}

#[test]
fn a_limit_is_a_whole_number_up_to_2_to_the_53() {
    let limited = |limit: Value| refused(&json!([{"limit": limit, "all_tools": true}]));
    let path = "/budgets/0/limit";
    assert_eq!(
        limited(json!((1_u64 << 53) + 1)),
        [error(path, "a limit of 9007199254740993, where 2^53 is the most", "")]
    );
    assert_eq!(limited(json!(-1)), [error(path, "-1 stands here, where u64 belongs", "")]);
    assert_eq!(
        limited(json!(1.5)),
        [error(path, "a number with a fraction or exponent stands here, where u64 belongs", "")]
    );
    assert_eq!(refused(&json!([{"all_tools": true}])), [error("/budgets/0", "the key `limit` is missing", "")]);
}

#[test]
fn a_window_is_lifetime_sliding_or_of_the_calendar() {
    let window = |window: Value| {
        let [(path, message, hint)] = &refused(&json!([with("window", &window)]))[..] else { panic!("one error") };
        (path.strip_prefix("/budgets/0/window").unwrap().to_owned(), message.clone(), hint.clone())
    };
    let one_kind =
        error("", "a window is sliding or of the calendar", "write `sliding_seconds` alone, or `calendar` and `zone`");
    assert_eq!(window(json!({})), one_kind);
    assert_eq!(window(json!({"zone": "UTC"})), one_kind);
    assert_eq!(window(json!({"sliding_seconds": 1, "zone": "UTC"})), one_kind);
    assert_eq!(window(json!({"sliding_seconds": 1, "calendar": "day", "zone": "UTC"})), one_kind);
    for seconds in [0, 2_678_401] {
        let message = format!("a window of {seconds} seconds, where 1 to 2678400 (31 days) may be");
        assert_eq!(window(json!({"sliding_seconds": seconds})), error("/sliding_seconds", &message, ""));
    }
    let units = "the values here are `hour`, `day`, `week`, `month`";
    assert_eq!(
        window(json!({"calendar": "fortnight", "zone": "UTC"})),
        error("/calendar", "`fortnight` is none of the values here", units)
    );
    let zone = "name the time zone, for example UTC or Europe/Berlin";
    assert_eq!(window(json!({"calendar": "day"})), error("", "the key `zone` is missing", zone));
    assert_eq!(window(json!({"calendar": "day", "zone": ""})), error("/zone", "an empty zone", zone));
    assert_eq!(
        window(json!({"calendar": "day", "zone": "é".repeat(33)})),
        error("/zone", "a zone of 66 bytes, where 64 is the most", zone)
    );
    assert_eq!(
        window(json!("forever")),
        error("", "`forever` is none of the values here", "the values here are `lifetime`")
    );
    assert_eq!(window(json!(60)), error("", "60 stands here, where `lifetime` or an object belongs", ""));
    assert_eq!(
        window(json!({"sliding_second": 1})),
        error("/sliding_second", "the key `sliding_second` is not known here", "did you mean `sliding_seconds`?")
    );
}

#[test]
fn words_and_names_that_are_none_are_refused() {
    assert_eq!(
        refused(&json!([with("per", &json!("sesion"))])),
        [error("/budgets/0/per", "`sesion` is none of the values here", "did you mean `session`?")]
    );
    assert_eq!(
        refused(&json!([with("count", &json!("all"))])),
        [error("/budgets/0/count", "`all` is none of the values here", "the values here are `forwarded`, `attempted`")]
    );
    let hint = "a name is 1 to 64 letters, digits, `-`, `_` or `.`, with a letter or digit first and last";
    for key in ["agent", "server"] {
        let message = format!("\"git*\" is no name that {key}s have, so the budget could never count");
        assert_eq!(refused(&json!([with(key, &json!("git*"))])), [error(&format!("/budgets/0/{key}"), &message, hint)]);
    }
}

#[test]
fn an_amount_names_an_argument() {
    let amount = |amount: Value| refused(&json!([with("amount", &amount)]));
    assert_eq!(amount(json!({})), [error("/budgets/0/amount", "the key `argument` is missing", "")]);
    for name in ["", &"x".repeat(257)] {
        let message = format!("an argument's name of {} bytes, where 1 to 256 may be", name.len());
        assert_eq!(amount(json!({ "argument": name })), [error("/budgets/0/amount/argument", &message, "")]);
    }
}

#[test]
fn loop_detection_lets_some_calls_through_in_some_time() {
    let loops = |loops: Value| refused_document(&json!({ "loops": loops }).to_string());
    assert_eq!(
        loops(json!({"times": 0, "seconds": 10})),
        [error("/loops/times", "no call at all would pass", "leave `loops` out to turn loop detection off")]
    );
    let message = "a window of 0 seconds, where 1 to 2678400 (31 days) may be";
    assert_eq!(loops(json!({"times": 3, "seconds": 0})), [error("/loops/seconds", message, "")]);
    assert_eq!(loops(json!({"times": 3})), [error("/loops", "the key `seconds` is missing", "")]);
}

#[test]
fn a_second_budget_that_counts_the_same_is_refused() {
    let text = "at most 1 call of a a session";
    assert_eq!(
        refused(&json!([
            {"limit": 1, "tool": "a"},
            {"limit": 1, "tool": "b"},
            {"limit": 2, "tool": "a", "per": "session", "window": "lifetime", "count": "forwarded"},
            {"limit": 3, "tool": "a", "per": "agent"},
            {"limit": 3, "tool": "a"},
        ])),
        [2, 4].map(|place| error(
            &format!("/budgets/{place}"),
            &format!("there is a budget that counts the same already: `{text}`"),
            "remove /budgets/0 or this one"
        ))
    );
}

#[test]
fn everything_wrong_is_told_at_once() {
    let settings = json!({
        "budgets": [{"limit": 1}, {"limit": 1, "tool": "a"}, {"limit": 1, "tool": ""}],
        "loops": {"times": 0, "seconds": 1},
    });
    let paths: Vec<String> = refused_document(&settings.to_string()).into_iter().map(|(path, _, _)| path).collect();
    assert_eq!(paths, ["/budgets/0", "/budgets/2/tool", "/loops/times"]);
}

fn sliding(tool: &str, seconds: usize) -> Value {
    json!({"limit": 1, "tool": tool, "window": {"sliding_seconds": seconds}})
}

#[test]
fn more_budgets_than_one_call_may_be_charged_are_refused() {
    let mut entries: Vec<Value> = (1..=64).map(|seconds| sliding("list_*", seconds)).collect();
    // These fit no call together with the others.
    entries.push(sliding("write_*", 1));
    entries.push(sliding("list", 1));
    let harness = Harness::<Budgets>::new(&json!({ "budgets": entries }).to_string()).unwrap();
    assert_eq!(harness.decide(&Call::new("s", "list_x")).charges.len(), 64);
    let with_loops = json!({"budgets": entries, "loops": {"times": 3, "seconds": 10}});
    assert_eq!(refused_document(&with_loops.to_string())[0].0, "/budgets/63");
    entries.push(sliding("*_file", 1));
    let [(path, message, hint)] = &refused(&json!(entries))[..] else { panic!("one error") };
    assert_eq!(path, "/budgets/66");
    assert!(
        message
            .starts_with("more than 64 budgets could count one call, this one together with /budgets/0, /budgets/1, ")
    );
    assert!(message.ends_with(", /budgets/63"));
    assert_eq!(hint.as_deref(), Some("name a tool, an agent or a server in more of them"));
}

#[test]
fn budgets_that_never_meet_may_be_many() {
    let mut entries: Vec<Value> = (0..100).map(|index| sliding(&format!("*_{index}"), 1)).collect();
    entries.extend((0..100).map(|index| json!({"limit": 1, "all_tools": true, "agent": format!("a{index}")})));
    entries.extend((0..100).map(|index| json!({"limit": 1, "tool": "x*", "server": format!("s{index}")})));
    entries.push(json!({"limit": 1, "all_tools": true}));
    let harness = Harness::<Budgets>::new(&json!({ "budgets": entries }).to_string()).unwrap();
    let decision = harness.decide(&Call::new("s7", "x_9").agent("a5"));
    assert_eq!((decision.verdict, decision.charges.len()), (Verdict::Abstain, 4));
}

#[test]
fn too_many_budgets_are_refused() {
    let entries = |count: usize| (0..count).map(|index| sliding(&format!("tool_{index}*x"), 1)).collect::<Value>();
    assert_eq!(refused(&entries(BUDGETS_MAX + 1)), [error("/budgets", "1001 budgets, where 1000 is the most", "")]);
    assert!(Harness::<Budgets>::new(&json!({ "budgets": entries(BUDGETS_MAX) }).to_string()).is_ok());
}

#[test]
fn the_schema_names_the_keys_that_are_read() {
    let schema: Value = serde_json::from_str(include_str!("../settings.schema.json")).unwrap();
    assert_eq!(schema["properties"]["budgets"]["maxItems"], BUDGETS_MAX);
    let budget = &schema["properties"]["budgets"]["items"];
    let window = &budget["properties"]["window"]["oneOf"];
    let known = |objects: &[&Value]| {
        let mut keys = Vec::new();
        for object in objects {
            assert_eq!(object["additionalProperties"], false);
            keys.extend(object["properties"].as_object().unwrap().keys().cloned());
        }
        keys.sort_unstable();
        keys
    };
    let budgets = |entry: Value| json!({"budgets": [entry]});
    for (settings, keys) in [
        (json!({"-": 0}), known(&[&schema])),
        (json!({"loops": {"-": 0}}), known(&[&schema["properties"]["loops"]])),
        (budgets(json!({"-": 0})), known(&[budget])),
        (budgets(json!({"amount": {"-": 0}})), known(&[&budget["properties"]["amount"]])),
        (budgets(json!({"window": {"-": 0}})), known(&[&window[1], &window[2]])),
    ] {
        let [(_, _, Some(hint))] = &refused_document(&settings.to_string())[..] else {
            panic!("an unknown key has a hint")
        };
        let mut read: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
        read.sort_unstable();
        assert_eq!(read, keys);
    }
}
