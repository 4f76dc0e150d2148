#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ramlet_fuzz_targets::find("csv").run(bytes));
