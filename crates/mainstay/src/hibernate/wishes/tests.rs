use super::*;
use api::hibernation::TargetStatus;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;

fn plan() -> HibernatePlan {
    serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": "p" },
        "spec": {
            "schedule": { "timezone": "UTC", "offHours": [{ "start": "20:00", "end": "06:00", "daysOfWeek": ["MON"] }] },
            "targets": [{ "name": "x", "executor": "noop" }],
        },
    }))
    .unwrap()
}

#[test]
fn a_wish_lasts_until_the_schedule_agrees() {
    let plan = plan();
    let schedule = follow(&plan.name_any(), &plan.spec, &[], None).unwrap().schedule;
    // 2026-11-16, a Monday, 12:00 and 23:00 UTC.
    let (noon, night) = (Time(1_794_830_400_000), Time(1_794_870_000_000));
    assert_eq!(
        rfc3339(until_it_agrees(&schedule, None, false, night).unwrap()),
        "2026-11-17T06:00:00Z"
    );
    assert_eq!(
        rfc3339(until_it_agrees(&schedule, None, true, noon).unwrap()),
        "2026-11-16T20:00:00Z"
    );
    let refused = |before: Option<&Override>| {
        let refused = until_it_agrees(&schedule, before, false, noon);
        refused.unwrap_err().to_string()
    };
    assert!(refused(None).contains("nothing is to be asked for"));
    // Somebody sent it to sleep: that has to be taken back.
    let asleep = Override::asleep_until(noon, noon + Duration::from_hours(1), "").unwrap();
    assert!(refused(Some(&asleep)).contains("`mainstay hibernate resume`"));
    assert!(duration("3h").is_ok() && duration("soon").is_err() && duration("0s").is_err());
}

#[test]
fn resuming_takes_back_everything_that_suspends_in_one_patch() {
    let mut object = plan();
    assert!(resumed(&object).is_err());
    let notes = object.annotations_mut();
    notes.insert(
        OVERRIDE.to_owned(),
        override_text(true, Time(1_000), Time(5_000), ""),
    );
    let (told, change) = resumed(&object).unwrap();
    assert_eq!(
        (told, change),
        ("the schedule decides again", annotation(OVERRIDE, None))
    );
    object.spec.suspend = true;
    let notes = object.annotations_mut();
    notes.insert(SUSPEND.to_owned(), "true".to_owned());
    notes.insert(SUSPEND_UNTIL.to_owned(), "2026-11-16T04:00:00Z".to_owned());
    let (told, change) = resumed(&object).unwrap();
    let all = json!({
        "spec": { "suspend": false },
        "metadata": { "annotations": { SUSPEND: null, SUSPEND_UNTIL: null } },
    });
    assert_eq!((told, change), ("resumed", all));
}

#[test]
fn a_wish_that_a_suspension_wins_over_says_so() {
    let now = Time(1_794_830_400_000);
    let (awake, retry) = (
        annotation(OVERRIDE, Some("awake …")),
        annotation(RETRY, Some("1")),
    );
    let told = |object: &HibernatePlan, change: &Value| heeded("asked".to_owned(), change, object, now);
    assert_eq!(told(&plan(), &awake), "asked");
    let mut field = plan();
    field.spec.suspend = true;
    let (mut noted, mut until, mut over) = (plan(), plan(), plan());
    let set = |object: &mut HibernatePlan, name: &str, value: &str| {
        object.annotations_mut().insert(name.to_owned(), value.to_owned());
    };
    set(&mut noted, SUSPEND, "true");
    set(&mut until, SUSPEND_UNTIL, "2026-11-17T04:00:00Z");
    set(&mut over, SUSPEND_UNTIL, "2026-11-16T04:00:00Z");
    for object in [&field, &noted, &until] {
        for change in [&awake, &retry] {
            let said = told(object, change);
            assert!(
                said.contains("it is suspended") && said.contains("resume p"),
                "{said}"
            );
        }
        assert_eq!(told(object, &annotation(OVERRIDE, None)), "asked");
        assert_eq!(told(object, &annotation(SUSPEND, Some("true"))), "asked");
    }
    assert_eq!(told(&over, &awake), "asked");
}

#[test]
fn a_retry_is_over_only_when_this_wish_was_granted() {
    let status = |retried: Value| HibernatePlanStatus {
        state: Some(json!({ "retried": retried })),
        ..HibernatePlanStatus::default()
    };
    assert!(is_granted(&status(json!("now")), "now"));
    assert!(!is_granted(&status(json!("before")), "now") && !is_granted(&status(Value::Null), "now"));
}

#[test]
fn progress_is_one_line() {
    let target = |state: &str| TargetStatus {
        name: "x".to_owned(),
        executor: "noop".to_owned(),
        state: state.to_owned(),
        attempts: 0,
        message: None,
        retry_at: None,
    };
    let status = HibernatePlanStatus {
        phase: Some("WakingUp".to_owned()),
        message: "`web`: 2 to start".to_owned(),
        targets: vec![target("Done"), target("Running")],
        ..HibernatePlanStatus::default()
    };
    assert_eq!(progress(&status), "WakingUp, 1 of 2 targets: `web`: 2 to start");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_and_says_how_far_it_was() {
    let kubernetes = sandbox::kube::Kubernetes::new(5);
    let client = kubernetes.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in api::kinds() {
        definitions.create(&PostParams::default(), &kind).await.unwrap();
    }
    let api: Api<HibernatePlan> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &plan()).await.unwrap();
    // Nobody follows the plan.
    let ended = follow_until(&api, "p", "Active", None, Duration::from_mins(2)).await;
    let why = ended.unwrap_err().to_string();
    assert!(
        why.contains("not Active after 120 s") && why.contains("new"),
        "{why}"
    );
    kubernetes.shutdown().await;
}
