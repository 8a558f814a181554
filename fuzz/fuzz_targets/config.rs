//! libFuzzer on `spp_fuzz::config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spp_fuzz::config(data));
