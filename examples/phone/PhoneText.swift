// Written from the documentation of MediaPipe and the Task Library. Not compiled and not run.
//
// Podfile:
//   pod 'MediaPipeTasksText'
//   pod 'TensorFlowLiteTaskText', '~> 0.4.4'

import Foundation
import MediaPipeTasksText
import TensorFlowLiteTaskText

enum PhoneTextError: Error {
  case notInBundle(String)
  case noResult
}

func pathInBundle(_ name: String) throws -> String {
  guard let path = Bundle.main.path(forResource: name, ofType: "tflite") else {
    throw PhoneTextError.notInBundle(name)
  }
  return path
}

/// Returns the labels of a text with their probabilities, the most likely label first.
final class Classifier {
  private let task: TextClassifier

  init(file: String = "classifier") throws {
    task = try TextClassifier(modelPath: pathInBundle(file))
  }

  func classify(_ text: String) throws -> [(label: String, score: Float)] {
    let result = try task.classify(text: text).classificationResult
    guard let head = result.classifications.first else { throw PhoneTextError.noResult }
    return head.categories
      .map { (label: $0.categoryName ?? "", score: $0.score) }
      .sorted { $0.score > $1.score }
  }
}

/// Returns the similarity of two texts, from -1 to 1.
final class Similarity {
  private let task: TextEmbedder

  init(file: String = "embedder") throws {
    task = try TextEmbedder(modelPath: pathInBundle(file))
  }

  func of(_ first: String, _ second: String) throws -> Double {
    let vectors = try [first, second].compactMap {
      try task.embed(text: $0).embeddingResult.embeddings.first
    }
    guard vectors.count == 2 else { throw PhoneTextError.noResult }
    return try TextEmbedder.cosineSimilarity(embedding1: vectors[0], embedding2: vectors[1])
      .doubleValue
  }
}

/// Returns the best answer to a question in a context, or nil.
final class Answers {
  private let task: TFLBertQuestionAnswerer

  init(file: String = "answers") throws {
    task = try TFLBertQuestionAnswerer.questionAnswerer(modelPath: pathInBundle(file))
  }

  func answer(context: String, question: String) -> String? {
    task.answer(context: context, question: question)
      .max { $0.pos.logit < $1.pos.logit }?.text
  }
}
