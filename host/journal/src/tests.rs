//! What the journal promises, tried from outside and, where a disk has to fail, from inside.

mod agents;
mod charging;
mod faults;
mod format;
mod group_commit;
mod install;
mod measure;
mod notes;
mod place;
mod plugins;
mod policy;
mod reading;
mod servers;
mod sessions;
mod support;
mod verifying;
