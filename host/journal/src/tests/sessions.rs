use callgate_core::entry::SessionStartBody;

use super::support::{Place, session, start};
use crate::SessionError;

fn resumed(number: u8) -> SessionStartBody {
    SessionStartBody { resumed: true, ..start(number) }
}

#[test]
fn a_session_id_is_used_once() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(journal.open_session(start(1)), Ok(1));
    assert_eq!(journal.open_session(start(1)), Err(SessionError::Used(session(1))));
    assert_eq!(journal.open_session(start(2)), Ok(2));
    drop(journal);
    assert_eq!(place.open().open_session(start(1)), Err(SessionError::Used(session(1))), "after a restart too");
    assert_eq!(place.sound(), 2);
}

#[test]
fn a_session_may_go_on() {
    let place = Place::new();
    let journal = place.open();
    journal.open_session(start(1)).unwrap();
    assert_eq!(journal.open_session(resumed(1)), Ok(2));
    assert_eq!(journal.open_session(resumed(1)), Ok(3));
    assert_eq!(place.sound(), 3);
}

#[test]
fn a_session_may_go_on_that_never_learned_it_had_begun() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(journal.open_session(resumed(1)), Ok(1));
    assert_eq!(journal.open_session(start(1)), Err(SessionError::Used(session(1))));
    assert_eq!(place.sound(), 1);
}
