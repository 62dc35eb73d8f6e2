//! Failures on demand, at the two moments of a commit where they matter. For tests: without the feature `faults` nothing
//! can be armed, and a moment passes without a trace.

#[cfg(any(test, feature = "faults"))]
pub use armed::{Act, Fault, Point};

#[cfg(any(test, feature = "faults"))]
pub(crate) use armed::Faults;

#[cfg(not(any(test, feature = "faults")))]
pub(crate) use unarmed::Faults;

#[cfg(not(any(test, feature = "faults")))]
mod unarmed {
    use crate::batch::Lost;

    /// Nothing waits to happen.
    #[derive(Debug, Default)]
    pub(crate) struct Faults {}

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same shape as in a build for tests")]
    impl Faults {
        pub(crate) const fn before_commit(&mut self) -> Result<(), Lost> {
            Ok(())
        }

        pub(crate) const fn after_commit(&mut self) -> Result<(), Lost> {
            Ok(())
        }
    }
}

#[cfg(any(test, feature = "faults"))]
mod armed {
    use std::str::FromStr;

    use rusqlite::ffi;

    use crate::batch::Lost;

    /// Something that goes wrong once.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Fault {
        /// Where.
        pub point: Point,
        /// What.
        pub act: Act,
        /// At the how-manieth commit from now on; 1 is the next.
        pub commit: u64,
    }

    /// A moment of every commit.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Point {
        /// Everything is settled and written, nothing is committed.
        BeforeCommit,
        /// The COMMIT succeeded, and nobody knows yet.
        AfterCommit,
    }

    /// What goes wrong.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Act {
        /// The process dies where it stands, as by `kill -9`.
        Abort,
        /// The disk is full.
        Full,
        /// The disk fails.
        Io,
    }

    /// What waits to happen.
    #[derive(Debug, Default)]
    pub(crate) struct Faults(Vec<Fault>);

    impl Faults {
        pub(crate) fn arm(&mut self, fault: Fault) {
            self.0.push(fault);
        }

        pub(crate) fn before_commit(&mut self) -> Result<(), Lost> {
            self.reach(Point::BeforeCommit)
        }

        pub(crate) fn after_commit(&mut self) -> Result<(), Lost> {
            self.reach(Point::AfterCommit)
        }

        fn reach(&mut self, point: Point) -> Result<(), Lost> {
            for fault in self.0.iter_mut().filter(|fault| fault.point == point) {
                fault.commit = fault.commit.saturating_sub(1);
            }
            let Some(due) = self.0.iter().position(|fault| fault.commit == 0) else { return Ok(()) };
            let code = match self.0.swap_remove(due).act {
                Act::Abort => std::process::abort(),
                Act::Full => ffi::SQLITE_FULL,
                Act::Io => ffi::SQLITE_IOERR_FSYNC,
            };
            Err(Lost(rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("on demand".to_owned()))))
        }
    }

    impl FromStr for Fault {
        type Err = String;

        /// Reads `<point>:<act>:<commit>`, for example `before-commit:abort:37`.
        fn from_str(text: &str) -> Result<Self, String> {
            let wrong = || format!("{text:?} is not a fault: it has to look like before-commit:abort:37");
            let parts: Vec<&str> = text.split(':').collect();
            let [point, act, commit] = parts[..] else { return Err(wrong()) };
            let point = match point {
                "before-commit" => Point::BeforeCommit,
                "after-commit" => Point::AfterCommit,
                _ => return Err(wrong()),
            };
            let act = match act {
                "abort" => Act::Abort,
                "full" => Act::Full,
                "io" => Act::Io,
                _ => return Err(wrong()),
            };
            let commit = commit.parse().ok().filter(|commit| *commit > 0).ok_or_else(wrong)?;
            Ok(Self { point, act, commit })
        }
    }
}
