use ramlet_kernels::{Kernels, Measure, kernels};

#[test]
fn the_chosen_table_is_available() {
    assert!(Kernels::all_available().any(|table| std::ptr::eq(table, kernels())));
    assert!(Kernels::all_available().any(|table| std::ptr::eq(table, Kernels::scalar())));
    assert!(Kernels::by_name("abacus").is_none());
    if let Ok(forced) = std::env::var("RAMLET_KERNELS")
        && let Some(table) = Kernels::by_name(&forced)
    {
        assert_eq!(kernels().name(), table.name());
    }
}

#[test]
#[should_panic(expected = "differ in dimensions")]
fn lengths_must_match() {
    kernels().dot_f32(&[1.0; 16], &[1.0; 15]);
}

#[test]
#[should_panic(expected = "do not lie in")]
fn rows_must_lie_in_the_bytes() {
    kernels().f32_rows(Measure::Dot, &[1.0; 4], &[0; 47], 16, &mut [0.0; 3]);
}

#[test]
#[should_panic(expected = "at most 65536")]
fn too_many_bytes_are_refused() {
    kernels().dot_u8(&[0; 65537], &[0; 65537]);
}
