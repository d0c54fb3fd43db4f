// Written from the documentation of MediaPipe and the Task Library. Not compiled and not run.
//
// dependencies {
//     implementation("com.google.mediapipe:tasks-text:latest.release")
//     implementation("org.tensorflow:tensorflow-lite-task-text:0.4.4")
// }
// android { androidResources { noCompress += "tflite" } }

package example.phone

import android.content.Context
import com.google.mediapipe.tasks.core.BaseOptions
import com.google.mediapipe.tasks.text.textclassifier.TextClassifier
import com.google.mediapipe.tasks.text.textembedder.TextEmbedder
import org.tensorflow.lite.task.text.qa.BertQuestionAnswerer

/** Labels of a text with their probabilities, the likeliest first. */
class Classifier(context: Context, file: String = "classifier.tflite") : AutoCloseable {
    private val task = TextClassifier.createFromOptions(
        context,
        TextClassifier.TextClassifierOptions.builder()
            .setBaseOptions(BaseOptions.builder().setModelAssetPath(file).build())
            .build(),
    )

    fun classify(text: String): List<Pair<String, Float>> =
        task.classify(text).classificationResult().classifications().first().categories()
            .map { it.categoryName() to it.score() }
            .sortedByDescending { it.second }

    override fun close() = task.close()
}

/** How much two texts are alike, from -1 to 1. */
class Similarity(context: Context, file: String = "embedder.tflite") : AutoCloseable {
    private val task = TextEmbedder.createFromOptions(
        context,
        TextEmbedder.TextEmbedderOptions.builder()
            .setBaseOptions(BaseOptions.builder().setModelAssetPath(file).build())
            .build(),
    )

    fun of(first: String, second: String): Double {
        val (a, b) = listOf(first, second).map {
            task.embed(it).embeddingResult().embeddings().first()
        }
        return TextEmbedder.cosineSimilarity(a, b)
    }

    override fun close() = task.close()
}

/** The best answer to a question that stands in a context, or null. */
class Answers(context: Context, file: String = "answers.tflite") : AutoCloseable {
    private val task = BertQuestionAnswerer.createFromFile(context, file)

    fun answer(context: String, question: String): String? =
        task.answer(context, question).maxByOrNull { it.pos.logit }?.text

    override fun close() = task.close()
}
