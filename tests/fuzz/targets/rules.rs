#![no_main]
//! Settings and calls of the plugin `rules`.

use callgate_fuzz::settings_and_calls;
use callgate_plugin_rules::Rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|document: &[u8]| settings_and_calls::<Rules>(document));
