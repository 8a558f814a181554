//! What holds however a place is made.

use sandbox_core::Capabilities;

use super::*;

/// Whoever is asked for a place refuses the spec.
struct Refusing(Arc<ProviderInfo>);

impl Refusing {
    fn new() -> Self {
        Self(Arc::new(ProviderInfo {
            name: "test".into(),
            version: "1".into(),
            capabilities: Capabilities::default(),
        }))
    }
}

#[async_trait]
impl Maker for Refusing {
    type Plan = AcquireSpec;
    type Rest = ();

    fn info(&self) -> &Arc<ProviderInfo> {
        &self.0
    }

    async fn plan(&self, _: &Ctx, _: &AcquireSpec) -> Result<AcquireSpec> {
        Err(Error::refused(Verb::Acquire, ErrorKind::NotFound))
    }

    fn inside(plan: &AcquireSpec) -> &AcquireSpec {
        plan
    }

    async fn place(
        &self,
        _: &Ctx,
        _: &AcquireSpec,
        _: &mut AcquireSpec,
        _: Purpose,
    ) -> std::result::Result<(Placed, ()), Trouble> {
        unreachable!("no spec was accepted")
    }

    async fn clear(&self, (): &mut (), _: &SandboxId, _: Left) -> Result<Disposition> {
        unreachable!("there is no place")
    }

    fn instead(_: Verb) -> &'static str {
        "do without"
    }
}

#[tokio::test]
async fn who_waits_for_another_call_stops_at_the_deadline_or_when_cancelled_and_nothing_is_forgotten()
 {
    let provider = Keeper::new(Refusing::new());
    let spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
    let id = &spec.id;
    let slot = provider.slot(id);
    // As another call that is making the sandbox.
    let making = slot.lock().await;
    let late = Ctx::new().with_timeout(Duration::ZERO);
    let cancelled = Ctx::new();
    cancelled.cancel().cancel();
    for (ctx, kind) in [
        (late, ErrorKind::DeadlineExceeded),
        (cancelled, ErrorKind::Cancelled),
    ] {
        let acquired = provider.acquire(&ctx, &spec).await.map(drop);
        let released = provider.release(&ctx, id, Disposition::Keep).await;
        for (verb, error) in [
            (Verb::Acquire, acquired.expect_err("it is being made")),
            (Verb::Release, released.expect_err("it is being made")),
        ] {
            let found = (error.verb(), error.kind(), error.effect());
            assert_eq!(found, (verb, kind, Effect::None), "{error}");
        }
        assert!(
            provider.slots().contains_key(id),
            "what is being made cannot be released any more"
        );
    }
    drop(making);
    provider.give_back(id, slot);
    assert!(!provider.slots().contains_key(id), "an empty slot is kept");
}

#[tokio::test]
async fn an_acquire_that_fails_and_a_release_of_nothing_leave_nothing_behind() {
    let provider = Keeper::new(Refusing::new());
    let spec = AcquireSpec::new(SandboxId::new("test").expect("valid"));
    let ctx = Ctx::new();
    let refused = provider.acquire(&ctx, &spec).await.map(drop);
    assert_eq!(refused.expect_err("no root").kind(), ErrorKind::NotFound);
    assert!(!provider.slots().contains_key(&spec.id));
    let receipt = provider.release(&ctx, &spec.id, Disposition::Keep).await;
    assert!(!receipt.expect("nothing to do").existed);
    assert!(!provider.slots().contains_key(&spec.id));
}
