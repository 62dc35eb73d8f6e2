//! How fast it is, for a person: `cargo test -p callgate-core --test suite -- --ignored --nocapture speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use callgate_core::canonical;
use callgate_core::digest::Digest;
use callgate_core::read::{read_client, read_server};

/// The time of one run, of 25 rounds the quickest: what else the machine does only ever adds to it.
fn quickest(mut run: impl FnMut()) -> Duration {
    let once = {
        let begun = Instant::now();
        run();
        begun.elapsed()
    };
    let runs = u32::try_from(5_000_000 / once.as_nanos().max(20)).unwrap_or(1).max(1);
    let mut rounds: Vec<Duration> = (0..25)
        .map(|_| {
            let begun = Instant::now();
            (0..runs).for_each(|_| run());
            begun.elapsed() / runs
        })
        .collect();
    rounds.sort_unstable();
    rounds[0]
}

fn show(what: &str, bytes: usize, mut run: impl FnMut()) {
    let time = quickest(&mut run);
    let rate = f64::from(u32::try_from(bytes).unwrap()) / time.as_secs_f64() / 1e9;
    println!("{what:<44} {bytes:>9} bytes {time:>12.2?} {rate:>7.2} GB/s");
}

fn call(arguments: &str) -> Vec<u8> {
    let head = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_file","arguments":"#;
    format!("{head}{arguments}}}}}\n").into_bytes()
}

fn records(count: usize) -> String {
    let record =
        |index: usize| format!(r#"{{"id":{index},"name":"record {index}","tags":["a","b"],"open":true,"at":1.5e3}}"#);
    format!(r#"{{"rows":[{}]}}"#, (0..count).map(record).collect::<Vec<_>>().join(","))
}

#[test]
#[ignore = "prints figures, checks nothing"]
fn speed() {
    let small = call(
        r#"{"path":"/home/someone/project/notes/2026-11-17.txt","content":"three lines of text\nand nothing else"}"#,
    );
    let plain = call(&format!(r#"{{"content":"{}"}}"#, "all plain text. ".repeat(32 * 1024)));
    let lines = call(&format!(
        r#"{{"content":"{}"}}"#,
        r"a line of some program;\n    and \u0022one\u0022 more\n".repeat(10 * 1024)
    ));
    let umlauts = call(&format!(r#"{{"content":"{}"}}"#, "größere Texte 日本 ".repeat(22 * 1024)));
    let rows = call(&records(8 * 1024));
    for (what, frame) in [
        ("small call", &small),
        ("one long string", &plain),
        ("text with escapes", &lines),
        ("not ASCII", &umlauts),
        ("records", &rows),
    ] {
        show(&format!("read_client, {what}"), frame.len(), || drop(black_box(read_client(black_box(frame)))));
    }
    let result = format!(
        r#"{{"result":{{"content":[{{"type":"text","text":"{}"}}]}},"jsonrpc":"2.0","id":7}}{}"#,
        "all plain text. ".repeat(32 * 1024),
        "\n"
    );
    show("read_server, one long string", result.len(), || drop(black_box(read_server(black_box(result.as_bytes())))));
    let rows = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}}}{}"#, records(8 * 1024), "\n");
    show("read_server, records", rows.len(), || drop(black_box(read_server(black_box(rows.as_bytes())))));
    let text = format!(r#"{{"content":"{}"}}"#, "all plain text. ".repeat(4 * 1024));
    let rows = records(900);
    show("SHA-256 alone", text.len(), || {
        black_box(Digest::of(black_box(text.as_bytes())));
    });
    show("canonical::digest, one long string", text.len(), || {
        black_box(canonical::digest(black_box(&text)));
    });
    show("canonical::digest, records", rows.len(), || {
        black_box(canonical::digest(black_box(&rows)));
    });
    let small = r#"{"path":"/home/someone/notes.txt","content":"three lines"}"#;
    show("canonical::digest, small", small.len(), || {
        black_box(canonical::digest(black_box(small)));
    });
    show("serde_json to Value, small call", call("{}").len(), {
        let frame = call("{}");
        move || drop(black_box(serde_json::from_slice::<serde_json::Value>(black_box(&frame))))
    });
}
