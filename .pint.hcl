# pint's findings that are by design, each with its reason: `make rules-lint`.

rule {
  # Rules of one group are evaluated in sequence. Those over hours and days are groups with a longer interval of their
  # own, and a value of the usual interval that is one evaluation old changes nothing in them.
  match {
    kind = "recording"
    name = ".+:(limit|max_week_ago|max_day_ago|usual|objective|burn_rate1h|budget_remaining30d)"
  }

  disable = ["rule/dependency"]
}

rule {
  # `topk` takes 20 alerts of a rule by values that keep their order, or are all the same: alerts/bound.py, whose test
  # has a crowd of each. A set that changed within `for` would be a silent alert, so that rules with other values take
  # the first 20 by equal values. And the value of a counter at its first sample is what the agent found when it began
  # (KafkaEosTransactionLogIncomplete): its increase does not have it.
  match {
    kind = "alerting"
    name = "KafkaEos.+"
  }

  disable = ["promql/fragile"]
}

rule {
  # A series that exists is the condition: a deadline that the agent exposes while a transaction is at risk, a state
  # within a window, a label that is missing, transactions of which none committed.
  match {
    kind = "alerting"
    name = "KafkaEos(AbortRatioHigh|ConnectTaskFailed|FlinkTransactionAtRisk|LabelsAmbiguous|ProducerFatalError|SparkQueryTerminated|StreamsFailed)"
  }

  # It fires always, for a dead-man's switch.
  match {
    kind = "alerting"
    name = "KafkaEosWatchdog"
  }

  disable = ["alerts/comparison"]
}
