//! libFuzzer on `spp_fuzz::messages`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spp_fuzz::messages(data));
