//! What one durable row costs on this disk with nothing around it: the floor under every durable decision.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use crate::report::{Report, median};
use crate::subject::micros;

const COMMITS: u32 = 200;
/// An entry of the journal is about this large.
const ROW_BYTES: usize = 800;

/// The median of single-row transactions in WAL mode with `synchronous=FULL`, microseconds.
pub(crate) fn measure(report: &mut Report, disk: &Path, rounds: usize) -> f64 {
    let folder = tempfile::Builder::new().prefix("cg-").tempdir_in(disk).expect("a folder can be made");
    let connection = Connection::open(folder.path().join("bare.db")).expect("a database can be made");
    connection
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE entry (seq INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;")
        .expect("the database is set up");
    let row = vec![b'x'; ROW_BYTES];
    let mut insert = connection.prepare("INSERT INTO entry (body) VALUES (?1)").expect("the statement is right");
    let mut medians: Vec<f64> = (0..rounds)
        .map(|_| {
            let mut times: Vec<f64> = (0..COMMITS)
                .map(|_| {
                    let begun = Instant::now();
                    insert.execute([&row]).expect("a row can be written");
                    micros(begun)
                })
                .collect();
            median(&mut times)
        })
        .collect();
    let commit = median(&mut medians);
    report.figure("a bare single-row commit (WAL, FULL)", commit);
    commit
}
