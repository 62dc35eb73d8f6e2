#![no_main]
//! Settings and calls of the plugin `budget`.

use callgate_fuzz::settings_and_calls;
use callgate_plugin_budget::Budgets;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|document: &[u8]| settings_and_calls::<Budgets>(document));
